//! The servers that deposits come from. They misbehave as each file is to be served, and remember that they did.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ingest_harness::bad_server::{Act, BadServer, GoodFile, Request, Script, answer};
use ingest_steps::manifest::Kind as ManifestKind;
use url::Url;

use super::deposit::{Deposit, Fate, Misdeed, Row};

/// How a file fares.
#[derive(Debug, Default)]
pub(crate) struct Served {
    /// How many misdeeds were done to whoever asked for it.
    pub(crate) misdeeds: AtomicUsize,
    /// Whether a source that lacked it has it now.
    repaired: AtomicBool,
}

impl Served {
    pub(crate) fn repair(&self) {
        self.repaired.store(true, Ordering::SeqCst);
    }
}

/// Two servers.
#[derive(Debug)]
pub(crate) struct Sources {
    servers: [BadServer; 2],
}

/// A deposit that can be fetched.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) payload: Url,
    /// The digest of the payload, if it is a file.
    pub(crate) sha256: Option<String>,
    pub(crate) served: Vec<Arc<Served>>,
}

impl Sources {
    pub(crate) async fn start() -> Self {
        Self { servers: [BadServer::start().await, BadServer::start().await] }
    }

    /// Puts the files of a deposit on the servers.
    pub(crate) fn publish(&self, deposit: &Deposit) -> Published {
        let mut served = Vec::new();
        let mut manifest = format!("#%checkm_0.7\n#%profile | {}\n", ManifestKind::SingleFileBatch.profile());
        let mut single = None;
        for (at, row) in deposit.rows.iter().enumerate() {
            let server = &self.servers[at % self.servers.len()];
            let (content, state) = (row.content(), Arc::<Served>::default());
            let said = row.announced();
            let url = server.url(&row.path);
            // Writing to a String cannot fail.
            let _ = writeln!(
                manifest,
                "{url} | sha-256 | {said} | {} | | {at}.bin | | {} | Lindqvist, A. | Thing {at} | 2001",
                content.len(),
                row.local_id
            );
            server.on(&row.path, play(row, GoodFile::new(content, &said[..16]), state.clone()));
            single = Some((url, said));
            served.push(state);
        }
        manifest.push_str("#%eof\n");
        match single {
            Some((payload, said)) if deposit.rows.len() == 1 => {
                Published { payload, sha256: Some(said), served }
            }
            _ => {
                let path = format!("/{}.checkm", deposit.name);
                let file = GoodFile::new(manifest, &deposit.name);
                self.servers[0].on(&path, move |request| file.serve(request));
                Published { payload: self.servers[0].url(&path), sha256: None, served }
            }
        }
    }
}

/// Serves a file as its row says: first the misdeeds, one for each time that its content is asked for.
fn play(
    row: &Row,
    file: GoodFile,
    served: Arc<Served>,
) -> impl Fn(&Request) -> Script + Send + Sync + 'static + use<> {
    let (misdeeds, missing) = (row.misdeeds.clone(), row.fate == Fate::Missing);
    let size = row.size;
    move |request| {
        if missing && !served.repaired.load(Ordering::SeqCst) {
            return vec![Act::Send(answer(404, &[], b"not here"))];
        }
        if request.method == "HEAD" {
            return file.serve(request);
        }
        let number = served.misdeeds.load(Ordering::SeqCst);
        let Some(misdeed) = misdeeds.get(number) else { return file.serve(request) };
        served.misdeeds.fetch_add(1, Ordering::SeqCst);
        let mut half = file.cut(request, size / 2);
        match misdeed {
            Misdeed::Unavailable => return vec![Act::Send(answer(503, &[], b"not now"))],
            Misdeed::Cut => {}
            Misdeed::Reset => half.push(Act::Reset),
            Misdeed::Silent => half.push(Act::Stall),
        }
        half
    }
}

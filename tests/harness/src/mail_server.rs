//! A real SMTP server that receives, as its own process (Debian's `python3-aiosmtpd`).
//!
//! Every message that it accepts is a file. Two recipients are special: `busy@…` is refused for now, `refused@…`
//! for good.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock::{PATIENCE, off_runtime, poll};
use crate::guard::Guard;
use crate::ports;

/// Debian's own Python: another one does not see Debian's modules.
const PYTHON: &str = "/usr/bin/python3";
const PACKAGE: &str = "python3-aiosmtpd";

/// Arguments: port, directory, and user and password if they are asked for.
const SCRIPT: &str = r"
import os, sys, threading
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

port, directory = int(sys.argv[1]), sys.argv[2]
wanted = tuple(text.encode() for text in sys.argv[3:5])

class Handler:
    count = 0
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith('busy@'):
            return '451 4.3.0 not now'
        if address.startswith('refused@'):
            return '550 5.1.1 no such mailbox'
        envelope.rcpt_tos.append(address)
        return '250 OK'
    async def handle_DATA(self, server, session, envelope):
        Handler.count += 1
        path = os.path.join(directory, '%06d.eml' % Handler.count)
        with open(path + '.new', 'wb') as file:
            file.write(('X-Envelope-To: %s\r\n' % ', '.join(envelope.rcpt_tos)).encode())
            file.write(envelope.content)
        os.rename(path + '.new', path)
        return '250 OK'

def authenticate(server, session, envelope, mechanism, data):
    given = (getattr(data, 'login', b''), getattr(data, 'password', b''))
    return AuthResult(success=given == wanted, handled=False)

options = dict(authenticator=authenticate, auth_required=True, auth_require_tls=False) if wanted else {}
Controller(Handler(), hostname='127.0.0.1', port=port, **options).start()
threading.Event().wait()
";

const ATTEMPTS: usize = 5;

/// A running mail server; it ends with the value.
#[derive(Debug)]
pub struct MailServer {
    port: u16,
    mailbox: PathBuf,
    _guard: Guard,
}

impl MailServer {
    /// Starts one that takes mail from everybody.
    pub async fn start() -> Self {
        Self::start_with(Vec::new()).await
    }

    /// Starts one that wants to know who sends.
    pub async fn start_with_auth(user: &str, password: &str) -> Self {
        Self::start_with(vec![user.to_owned(), password.to_owned()]).await
    }

    async fn start_with(auth: Vec<String>) -> Self {
        off_runtime(move || {
            assert!(
                Path::new("/usr/lib/python3/dist-packages/aiosmtpd").exists() && Path::new(PYTHON).exists(),
                "this test needs a mail server: apt-get install {PACKAGE}"
            );
            (0..ATTEMPTS).find_map(|_| Self::try_start(&auth)).expect("start a mail server on a free port")
        })
        .await
    }

    fn try_start(auth: &[String]) -> Option<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("mail-")
            .tempdir()
            .expect("make a scratch directory for a mail server")
            .keep();
        let (mailbox, log) = (scratch.join("mailbox"), scratch.join("log"));
        fs::create_dir(&mailbox).expect("make a mailbox");
        let port = ports::free();
        let mut command = [PYTHON, "-c", SCRIPT].map(str::to_owned).to_vec();
        command.extend([port.to_string(), mailbox.display().to_string()]);
        command.extend_from_slice(auth);
        let guard = Guard::start(&scratch, &log, &command);
        let up =
            poll(PATIENCE, || if guard.pid().is_none() { Some(false) } else { greets(port).then_some(true) });
        (up == Some(true)).then_some(Self { port, mailbox, _guard: guard })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Everything that was received, oldest first.
    pub fn received(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.mailbox).expect("list the mailbox");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("list the mailbox").path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "eml"));
        files.sort();
        files.iter().map(|path| fs::read_to_string(path).expect("read a message")).collect()
    }
}

fn greets(port: u16) -> bool {
    let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return false };
    let mut line = String::new();
    stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
        && BufReader::new(stream).read_line(&mut line).is_ok()
        && line.starts_with("220")
}

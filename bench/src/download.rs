//! How fast files come over HTTP, verified and safe on the disk, against `curl`, `sha256sum` and `sync -f`.
//!
//! A server in a process of its own sends a large file and many small ones from memory. The baseline brings them
//! one by one with `curl`, then computes their digests, then forces them to the disk: three passes, as a script
//! would do it. Ours is the fetcher in a fresh process, with the concurrency of the default settings: a file
//! has its name only when it is whole, its sha-256 is right and it is on the disk.
//!
//! After each part the digests of all files are compared with those that the server's bytes have.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ingest_steps::digest::{Algorithm, Digest, Digests};
use ingest_steps::fetch::{Allowed, Fetcher, Rules, Wanted};
use ingest_steps::outcome::{Cancel, Progress};
use ingest_steps::settings::Settings;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use crate::Context;
use crate::scratch;

/// Hidden first arguments: this program is its own server and its own client.
const SERVER: &str = "--download-server";
const CLIENT: &str = "--download-client";
const BASELINE: &str = "curl, then sha256sum, then sync -f";
const BLOCK: usize = 1 << 20;

/// Files of one size.
#[derive(Debug, Clone, Copy)]
struct Load {
    files: usize,
    bytes: u64,
    unit: &'static str,
}

impl Load {
    /// The asked sizes, or smaller ones.
    fn all(long: bool) -> [Load; 2] {
        let (large, many) = if long { (4_000_000_000, 2_000) } else { (1_000_000_000, 500) };
        [
            Load { files: 1, bytes: large, unit: "mb_per_s" },
            Load { files: many, bytes: 64_000, unit: "per_s" },
        ]
    }

    fn case(&self) -> String {
        let size = if self.bytes >= 1_000_000_000 {
            format!("{} GB", self.bytes / 1_000_000_000)
        } else {
            format!("{} KB", self.bytes / 1000)
        };
        format!("{} x {size}", self.files)
    }

    fn url(&self, server: &str, number: usize) -> String {
        format!("http://{server}/{}/{number}", self.bytes)
    }

    /// A little of it, for the server and the system to become warm.
    fn warm_up(&self) -> Load {
        Load { files: self.files.min(50), bytes: self.bytes.min(100_000_000), ..*self }
    }

    /// Files, or megabytes, per second.
    // Far below the 2^52 that a float counts exactly.
    #[allow(clippy::cast_precision_loss)]
    fn rate(&self, seconds: f64) -> f64 {
        match self.unit {
            "per_s" => self.files as f64 / seconds,
            _ => self.files as f64 * self.bytes as f64 / 1e6 / seconds,
        }
    }
}

/// Runs the benchmark.
pub(crate) async fn run(context: Context) -> Result<()> {
    // It waits for processes.
    tokio::task::spawn_blocking(move || measure_all(&context)).await?
}

fn measure_all(context: &Context) -> Result<()> {
    let loads: Vec<_> =
        Load::all(context.long).into_iter().filter(|load| context.wants(&load.case())).collect();
    if loads.is_empty() {
        bail!("no such case; known are: {}", Load::all(context.long).map(|load| load.case()).join(", "));
    }
    context.report.plan(loads.len() * 5);
    let server = Server::start()?;
    for load in loads {
        let expected = load_digests(&load)?;
        warm_up(context, &load, &server.address)?;
        let measure = |what: &str, run: &dyn Fn(&Path) -> Result<u64>| {
            let _part = context.report.part(&format!("{}, {what}", load.case()));
            let dir = scratch::directory()?;
            // What was written before is not written on our time.
            sync(dir.path())?;
            let begun = Instant::now();
            let peak = run(dir.path())?;
            let seconds = begun.elapsed().as_secs_f64();
            verify(dir.path(), &load, &expected)?;
            anyhow::Ok((load.rate(seconds), peak))
        };
        let baseline = |dir: &Path| by_curl(dir, &load, &server.address).map(|()| 0);
        let before = measure("baseline before", &baseline)?.0;
        let ours = |dir: &Path| by_fetcher(dir, &load, &server.address, "sha-256");
        let (rate, peak) = measure("ours", &ours)?;
        let as_step = |dir: &Path| by_fetcher(dir, &load, &server.address, "sha-512");
        let (with_both, _) = measure("ours with sha-512", &as_step)?;
        let after = measure("baseline after", &baseline)?.0;
        let baseline = f64::midpoint(before, after);
        let report = &context.report;
        report.print(&report.row(load.case(), rate, load.unit).against(BASELINE, baseline))?;
        let both = format!("{} and sha-512", load.case());
        report.print(&report.row(both, with_both, load.unit).against(BASELINE, baseline))?;
        // Far below the 2^52 that a float counts exactly.
        #[allow(clippy::cast_precision_loss)]
        let peak = peak as f64 / 1e6;
        report.print(&report.row(format!("{} peak memory", load.case()), peak, "mb"))?;
    }
    Ok(())
}

/// A little of everything that is measured, unmeasured.
fn warm_up(context: &Context, load: &Load, server: &str) -> Result<()> {
    let _part = context.report.part(&format!("{}, warming up", load.case()));
    let load = load.warm_up();
    by_curl(scratch::directory()?.path(), &load, server)?;
    for algorithm in ["sha-256", "sha-512"] {
        by_fetcher(scratch::directory()?.path(), &load, server, algorithm)?;
    }
    Ok(())
}

fn ended_well(command: &mut Command) -> Result<()> {
    let shown = command.get_program().display().to_string();
    let status = command.stdout(Stdio::null()).status().with_context(|| shown.clone())?;
    ensure!(status.success(), "{shown}: {status}");
    Ok(())
}

fn sync(dir: &Path) -> Result<()> {
    ended_well(Command::new("sync").arg("-f").arg(dir))
}

fn by_curl(dir: &Path, load: &Load, server: &str) -> Result<()> {
    for number in 0..load.files {
        let to = dir.join(number.to_string());
        ended_well(Command::new("curl").args(["-sSf", "-o"]).arg(to).arg(load.url(server, number)))?;
    }
    let files = (0..load.files).map(|number| number.to_string());
    ended_well(Command::new("sha256sum").args(files).current_dir(dir))?;
    sync(dir)
}

/// Answers the peak memory of the process in bytes.
fn by_fetcher(dir: &Path, load: &Load, server: &str, algorithm: &str) -> Result<u64> {
    let arguments = [server, &load.files.to_string(), &load.bytes.to_string(), algorithm].map(str::to_owned);
    let client = Command::new(std::env::current_exe()?).arg(CLIENT).args(arguments).arg(dir).output()?;
    let said = String::from_utf8_lossy(&client.stdout);
    let why = String::from_utf8_lossy(&client.stderr);
    ensure!(client.status.success(), "the downloading process: {why}");
    said.trim().parse().with_context(|| format!("the downloading process said {said:?}"))
}

/// What each file must have, from the same bytes as the server's.
fn load_digests(load: &Load) -> Result<Vec<Digest>> {
    let block = block();
    (0..load.files)
        .map(|number| {
            let mut digests = Digests::of([Algorithm::Sha256]);
            each_piece(number, load.bytes, &block, |piece| digests.update(piece));
            digests.finish().pop().context("no digest")
        })
        .collect()
}

fn verify(dir: &Path, load: &Load, expected: &[Digest]) -> Result<()> {
    let count = fs::read_dir(dir)?.count();
    ensure!(count == load.files, "{count} files are there, and not {}", load.files);
    for (number, expected) in expected.iter().enumerate() {
        let mut digests = Digests::of([Algorithm::Sha256]);
        digests.read_file(&dir.join(number.to_string()))?;
        let found = digests.finish();
        ensure!(found.first() == Some(expected), "file {number} is not what was sent");
    }
    Ok(())
}

/// Bytes that do not compress, the same in every process.
fn block() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..BLOCK / 8).flat_map(|_| next().to_le_bytes()).collect()
}

/// The content of a file: its number, then the block again and again.
fn each_piece(number: usize, bytes: u64, block: &[u8], mut each: impl FnMut(&[u8])) {
    for piece in pieces(number, bytes, block) {
        each(piece.as_ref());
    }
}

fn pieces(number: usize, bytes: u64, block: &[u8]) -> impl Iterator<Item = std::borrow::Cow<'_, [u8]>> {
    let head = (number as u64).to_le_bytes().to_vec();
    let mut left = bytes.saturating_sub(head.len() as u64);
    let rest = std::iter::from_fn(move || {
        let count = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
        left -= count as u64;
        (count > 0).then(|| std::borrow::Cow::Borrowed(&block[..count]))
    });
    std::iter::once(std::borrow::Cow::Owned(head)).chain(rest)
}

/// The server's process.
#[derive(Debug)]
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        // It ends when its standard input does.
        let mut child = command.arg(SERVER).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        let said = child.stdout.take().context("the server's output")?;
        BufReader::new(said).read_line(&mut address)?;
        Ok(Self { child, address: address.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Does what a hidden first argument asks for, in a process that was started for it.
pub(crate) fn child() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first()?.as_str() {
        SERVER => serve(),
        CLIENT => fetch(&arguments[1..]),
        _ => return None,
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    })
}

fn serve() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        std::io::stdout().flush()?;
        let block: &'static [u8] = block().leak();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that leaves is no failure.
                tokio::spawn(async move { drop(answer(stream, block).await) });
            }
        });
        let ended =
            tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
        ended.await??;
        anyhow::Ok(())
    })
}

/// Answers `GET /BYTES/NUMBER`, one after another on a connection.
async fn answer(stream: TcpStream, block: &[u8]) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = tokio::io::BufReader::new(stream);
    loop {
        let mut first = String::new();
        if stream.read_line(&mut first).await? == 0 {
            return Ok(());
        }
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            ensure!(stream.read_line(&mut line).await? > 0, "the request was cut");
        }
        let mut path = first.split(' ').nth(1).context("no path")?.split('/').skip(1);
        let bytes: u64 = path.next().context("no size")?.parse()?;
        let number: usize = path.next().context("no number")?.parse()?;
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nETag: \"{bytes}-{number}\"\r\n\r\n");
        let mut small = head.into_bytes();
        for piece in pieces(number, bytes, block) {
            if small.len() + piece.len() <= 128 << 10 {
                small.extend_from_slice(&piece);
                continue;
            }
            stream.write_all(&small).await?;
            small.clear();
            stream.write_all(&piece).await?;
        }
        stream.write_all(&small).await?;
        stream.flush().await?;
    }
}

/// Brings the files of a load to a directory, and prints its own peak memory.
fn fetch(arguments: &[String]) -> Result<()> {
    let [server, files, bytes, algorithm, dir] = arguments else { bail!("five arguments") };
    let (files, bytes): (usize, u64) = (files.parse()?, bytes.parse()?);
    let load = Load { files, bytes, unit: "" };
    let loopback = Allowed::try_from("127.0.0.0/8".to_owned()).map_err(|error| anyhow::anyhow!("{error}"))?;
    let fetcher = Fetcher::new(Rules { allowed: vec![loopback], ..Rules::default() })?;
    let algorithms: Vec<Algorithm> = vec![algorithm.parse()?];
    let at_once = Settings::default().downloading.at_once;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let (progress, cancel) = (Progress::default(), Cancel::new());
        let coming = stream::iter(0..files).map(|number| {
            let (fetcher, progress, cancel, algorithms) = (&fetcher, &progress, &cancel, algorithms.clone());
            let (url, to) = (load.url(server, number), Path::new(dir).join(number.to_string()));
            async move {
                let wanted = Wanted { algorithms, ..Wanted::new(Url::parse(&url)?) };
                fetcher.fetch(&wanted, &to, progress, cancel).await?;
                anyhow::Ok(())
            }
        });
        coming.buffer_unordered(at_once).try_collect::<()>().await
    })?;
    println!("{}", peak_memory()?);
    Ok(())
}

/// The most memory that this process has had, in bytes.
fn peak_memory() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_bytes_and_its_number_is_in_them() {
        let block = block();
        let content = |number, bytes| {
            let mut all = Vec::new();
            each_piece(number, bytes, &block, |piece| all.extend_from_slice(piece));
            all
        };
        assert_eq!(content(1, 64_000).len(), 64_000);
        assert_eq!(content(1, 3_000_000).len(), 3_000_000);
        assert_ne!(content(1, 64_000), content(2, 64_000));
    }

    #[test]
    fn what_was_not_sent_is_found_out() {
        let dir = tempfile::tempdir().unwrap();
        let load = Load { files: 2, bytes: 100, unit: "per_s" };
        let expected = load_digests(&load).unwrap();
        for number in 0..2 {
            let mut content = Vec::new();
            each_piece(number, 100, &block(), |piece| content.extend_from_slice(piece));
            fs::write(dir.path().join(number.to_string()), content).unwrap();
        }
        verify(dir.path(), &load, &expected).unwrap();
        fs::write(dir.path().join("1"), [0; 100]).unwrap();
        assert!(verify(dir.path(), &load, &expected).unwrap_err().to_string().contains("file 1"));
        fs::remove_file(dir.path().join("1")).unwrap();
        assert!(verify(dir.path(), &load, &expected).unwrap_err().to_string().contains("1 files are there"));
    }
}

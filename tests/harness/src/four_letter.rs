//! Four-letter words, asked with a deadline.
//!
//! A server that accepts before it is initialised takes the word and never answers, so every question
//! has a socket timeout. Blocking: callers run it beside the runtime.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Enough for a loaded two-core machine, short enough that asking a paused server does not stall a test.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The whole answer to `word`.
pub(crate) fn ask(server: SocketAddr, word: &str, within: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, within)?;
    stream.set_read_timeout(Some(within))?;
    stream.set_write_timeout(Some(within))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed without an answer"));
    }
    Ok(answer)
}

/// `standalone`, `leader`, `follower`; `None` while the server does not serve.
pub(crate) fn mode(server: SocketAddr) -> Option<String> {
    let answer = ask(server, "srvr", ANSWER_WITHIN).ok()?;
    answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
}

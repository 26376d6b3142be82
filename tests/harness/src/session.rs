//! Faults of sessions: expire somebody's session at the server, and see that it is gone.
//!
//! Waiting for a session to expire costs its timeout. Instead a second connection takes the session over
//! with its id and password and closes it: the server removes its ephemeral nodes, and the client, when
//! it returns, is told that its session has expired - the same as after a timeout.
//!
//! When things break: the client may return first and push our connection away. Then we try again until
//! the server has answered: the session is closed, or there is none.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::clock::{PATIENCE, off_runtime, poll};
use crate::wire::{ConnectRequest, ConnectResponse, Fields, Reply, RequestKind, frame};

const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// What we ask for; the server grants at least its minimum.
const TIMEOUT: i32 = 4_000;

/// Expires the session `id`: on return, the server has removed it and its ephemeral nodes.
pub async fn expire_session(server: SocketAddr, id: i64, password: &[u8]) {
    let password = password.to_vec();
    insist("expire", server, id, move || close_as(server, id, &password)).await;
}

/// Whether the server knows no such session. If it does, it is taken over for a moment: its client is
/// disconnected and has to return.
pub async fn session_is_gone(server: SocketAddr, id: i64, password: &[u8]) -> bool {
    let password = password.to_vec();
    let ask = move || RawSession::resume(server, id, &password).map(|session| session.id == 0);
    insist("ask for", server, id, ask).await
}

/// Tries again while the session's client, or a server that is not ready, closes our connection.
async fn insist<T: Send + 'static>(
    what: &'static str,
    server: SocketAddr,
    id: i64,
    mut attempt: impl FnMut() -> io::Result<T> + Send + 'static,
) -> T {
    off_runtime(move || {
        let mut last = None;
        let done = poll(PATIENCE, || attempt().map_err(|why| last = Some(why)).ok());
        done.unwrap_or_else(|| panic!("cannot {what} session {id:#x} on {server}: {last:?}"))
    })
    .await
}

/// Takes the session over and closes it; done as well if there is none.
fn close_as(server: SocketAddr, id: i64, password: &[u8]) -> io::Result<()> {
    let mut session = RawSession::greet(server, id, password)?;
    // The server reads this right after the greeting. Sent any later, the client could be back first.
    session.send(RequestKind::CloseSession, &[])?;
    session.welcome()?;
    if session.id == 0 { Ok(()) } else { session.reply().map(drop) }
}

/// A session spoken by hand, without pings, retries or anything else that a client adds. Blocking.
pub(crate) struct RawSession {
    stream: TcpStream,
    id: i64,
    xid: i32,
}

impl RawSession {
    /// A new session.
    pub(crate) fn open(server: SocketAddr) -> io::Result<RawSession> {
        Self::resume(server, 0, &[0; 16])
    }

    fn resume(server: SocketAddr, id: i64, password: &[u8]) -> io::Result<RawSession> {
        let mut session = Self::greet(server, id, password)?;
        session.welcome()?;
        Ok(session)
    }

    fn greet(server: SocketAddr, id: i64, password: &[u8]) -> io::Result<RawSession> {
        let mut stream = TcpStream::connect_timeout(&server, ANSWER_WITHIN)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        let request = ConnectRequest { timeout: TIMEOUT, session: id, password: password.to_vec() };
        stream.write_all(&frame(&request.encode()))?;
        Ok(RawSession { stream, id, xid: 0 })
    }

    /// Reads the server's answer to the greeting; the id is 0 if it refuses the session.
    fn welcome(&mut self) -> io::Result<()> {
        let body = self.read_frame()?;
        self.id = ConnectResponse::decode(&body).ok_or_else(malformed)?.session;
        Ok(())
    }

    /// Creates an empty persistent node open to the world.
    pub(crate) fn create(&mut self, path: &str) -> io::Result<()> {
        let payload = Fields::default()
            .string(path)
            .buffer(&[])
            .int(1) // one access rule: everything (31) to world:anyone
            .int(31)
            .string("world")
            .string("anyone")
            .int(0)
            .done();
        self.send(RequestKind::Create, &payload)?;
        match self.reply()? {
            0 => Ok(()),
            code => Err(io::Error::other(format!("error {code}"))),
        }
    }

    /// Closes the session at the server.
    pub(crate) fn close(mut self) -> io::Result<()> {
        self.send(RequestKind::CloseSession, &[])?;
        self.reply().map(drop)
    }

    fn send(&mut self, kind: RequestKind, payload: &[u8]) -> io::Result<()> {
        self.xid += 1;
        let mut body = Fields::default().int(self.xid).int(kind.opcode()).done();
        body.extend_from_slice(payload);
        self.stream.write_all(&frame(&body))
    }

    /// The error code of the answer to the last request.
    fn reply(&mut self) -> io::Result<i32> {
        loop {
            let reply = Reply::decode(&self.read_frame()?).ok_or_else(malformed)?;
            // A session taken over may still get notifications of its client's watches.
            if reply.xid == self.xid {
                return Ok(reply.err);
            }
        }
    }

    fn read_frame(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = usize::try_from(i32::from_be_bytes(length)).map_err(|_| malformed())?;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not an answer of ZooKeeper")
}

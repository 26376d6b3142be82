//! As much of ZooKeeper's wire protocol as faults and counts need.
//!
//! Everything is a frame: a length of four bytes, big-endian, and a body. A connection begins with
//! [`ConnectRequest`] and [`ConnectResponse`]; then bodies are requests (`xid`, opcode, …) and replies
//! (`xid`, zxid, error, …). Beyond their headers only the answers to multis are interpreted: whether they were
//! refused ([`refusal`]).

/// `xid` of a notification of a watch, which answers no request.
pub(crate) const NOTIFICATION: i32 = -1;

/// Larger than any frame that a server accepts or sends with common settings.
const LARGEST: i32 = 128 << 20;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $opcode:literal,)*) => {
        /// What a request asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RequestKind {
            $($(#[$doc])* $name,)*
            /// An opcode that this list does not name.
            Other(i32),
        }

        impl RequestKind {
            pub fn from_opcode(opcode: i32) -> Self {
                match opcode {
                    $($opcode => RequestKind::$name,)*
                    other => RequestKind::Other(other),
                }
            }

            pub fn opcode(self) -> i32 {
                match self {
                    $(RequestKind::$name => $opcode,)*
                    RequestKind::Other(opcode) => opcode,
                }
            }
        }
    };
}

kinds! {
    /// The greeting that begins or resumes a session.
    Connect = -10,
    CloseSession = -11,
    Create = 1,
    Delete = 2,
    Exists = 3,
    GetData = 4,
    SetData = 5,
    GetAcl = 6,
    SetAcl = 7,
    GetChildren = 8,
    Sync = 9,
    Ping = 11,
    GetChildren2 = 12,
    Check = 13,
    Multi = 14,
    Create2 = 15,
    Reconfig = 16,
    CheckWatches = 17,
    RemoveWatches = 18,
    CreateContainer = 19,
    DeleteContainer = 20,
    CreateTtl = 21,
    MultiRead = 22,
    Auth = 100,
    SetWatches = 101,
    Sasl = 102,
    GetEphemerals = 103,
    GetAllChildrenNumber = 104,
    SetWatches2 = 105,
    AddWatch = 106,
}

impl RequestKind {
    /// Sent by a client for its connection's sake, not because the application asked.
    pub fn is_housekeeping(self) -> bool {
        matches!(
            self,
            Self::Connect
                | Self::CloseSession
                | Self::Ping
                | Self::Auth
                | Self::Sasl
                | Self::SetWatches
                | Self::SetWatches2
        )
    }
}

/// The client's greeting.
#[derive(Debug)]
pub(crate) struct ConnectRequest {
    pub(crate) timeout: i32,
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
}

impl ConnectRequest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Protocol version and last zxid seen are zero: a server refuses clients from its future only.
        let fields = Fields::default().int(0).long(0).int(self.timeout).long(self.session);
        fields.buffer(&self.password).byte(0).done()
    }
}

/// The server's answer to it; the session is 0 if it has expired.
#[derive(Debug)]
pub(crate) struct ConnectResponse {
    pub(crate) timeout: i32,
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
}

impl ConnectResponse {
    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let length = usize::try_from(int(body, 16)?).ok()?;
        let password = body.get(20..20 + length)?.to_vec();
        Some(ConnectResponse { timeout: int(body, 4)?, session: long(body, 8)?, password })
    }
}

/// The header of a request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) xid: i32,
    pub(crate) kind: RequestKind,
}

impl Request {
    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        Some(Request { xid: int(body, 0)?, kind: RequestKind::from_opcode(int(body, 4)?) })
    }
}

/// The header of a reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    pub(crate) err: i32,
}

impl Reply {
    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        Some(Reply { xid: int(body, 0)?, zxid: long(body, 4)?, err: int(body, 12)? })
    }
}

/// Why a multi was refused, by the body of its reply; `None` if it was committed. The header of such a reply says
/// that all is well: each operation has a result of its own, and those of a refused multi are all errors, of which
/// those before the culprit are 0.
pub(crate) fn refusal(body: &[u8]) -> Option<i32> {
    const ERROR: i32 = -1;
    const HEADER: usize = 16;
    // Type, whether it is the end, and an error, which comes again as the result.
    const RESULT: usize = 4 + 1 + 4 + 4;
    let mut at = HEADER;
    let mut refused = false;
    while int(body, at)? == ERROR && body.get(at + 4) == Some(&0) {
        refused = true;
        let error = int(body, at + 9)?;
        if error != 0 {
            return Some(error);
        }
        at += RESULT;
    }
    refused.then_some(ERROR)
}

/// The body's length if `head`, the first four bytes of a frame, can be one.
pub(crate) fn frame_length(head: [u8; 4]) -> Option<usize> {
    let length = i32::from_be_bytes(head);
    if (0..=LARGEST).contains(&length) { usize::try_from(length).ok() } else { None }
}

/// Whether a connection that begins so speaks ZooKeeper's protocol: a greeting is 28 bytes and a password.
/// Four letters, a TLS hello or an HTTP method are not.
pub(crate) fn is_greeting(head: [u8; 4]) -> bool {
    (28..=1024).contains(&i32::from_be_bytes(head))
}

/// A body with its length in front.
pub(crate) fn frame(body: &[u8]) -> Vec<u8> {
    Fields::default().buffer(body).done()
}

/// Fields in the order of the protocol's records.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<u8>);

impl Fields {
    pub(crate) fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn int(mut self, value: i32) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, value: i64) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn buffer(self, value: &[u8]) -> Self {
        let length = i32::try_from(value.len()).expect("a field is shorter than 2 GB");
        let mut fields = self.int(length);
        fields.0.extend_from_slice(value);
        fields
    }

    pub(crate) fn string(self, value: &str) -> Self {
        self.buffer(value.as_bytes())
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.0
    }
}

fn int(body: &[u8], at: usize) -> Option<i32> {
    body.get(at..at + 4)?.try_into().ok().map(i32::from_be_bytes)
}

fn long(body: &[u8], at: usize) -> Option<i64> {
    body.get(at..at + 8)?.try_into().ok().map(i64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(results: &[i32]) -> Vec<u8> {
        let header = Fields::default().int(7).long(42).int(0);
        let fields =
            results.iter().fold(header, |fields, error| fields.int(-1).byte(0).int(*error).int(*error));
        fields.int(-1).byte(1).int(-1).done()
    }

    #[test]
    fn a_refused_multi_is_told_from_one_that_was_committed() {
        assert_eq!(refusal(&reply(&[0, -103, -2])), Some(-103));
        assert_eq!(refusal(&reply(&[-101])), Some(-101));
        let committed =
            Fields::default().int(7).long(42).int(0).int(13).byte(0).int(0).int(-1).byte(1).int(-1).done();
        assert_eq!(refusal(&committed), None);
    }
}

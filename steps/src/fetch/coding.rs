//! Content codings: what a server did to the bytes of a file although it was asked not to.
//!
//! Every request asks for `identity`. A server that sends gzip all the same is decoded, because sizes, digests and what is
//! stored are those of the file and not of its transport; any other coding is refused by name.
//!
//! Some servers say `Content-Encoding: gzip` of a file that is itself a gzip (`a.tar.gz`, by Apache's `AddEncoding`), and
//! mean the file as it is. Where the name or the content type says gzip too, the content decides: if what is in the gzip is
//! a gzip again, the server has encoded the file; if not, the gzip is the file.
//!
//! An encoded answer is never continued: ranges and lengths count encoded bytes.
//!
//! **When things break.** A gzip that ends early or is damaged is an error that names the coding; the caller asks again for
//! the whole.

use std::io::Write as _;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use url::Url;

/// So many encoded bytes are kept at most while it is open whether they are the file.
const UNDECIDED: usize = 128 << 10;
/// How a gzip begins.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// How the body of an answer is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
}

impl Coding {
    /// What the headers say, or why the body cannot be decoded.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, String> {
        let values = headers.get_all(CONTENT_ENCODING).iter();
        let all: Vec<String> = values
            .flat_map(|value| {
                String::from_utf8_lossy(value.as_bytes()).split(',').map(str::to_owned).collect::<Vec<_>>()
            })
            .map(|coding| coding.trim().to_ascii_lowercase())
            .filter(|coding| !coding.is_empty() && coding != "identity")
            .collect();
        match all.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => Ok(Coding::Identity),
            ["gzip" | "x-gzip"] => Ok(Coding::Gzip),
            _ => Err(format!(
                "the server sends it encoded (`Content-Encoding: {}`) although it was asked for as it is, and only gzip \
                 is decoded; let the server send it without an encoding",
                all.join(", ").chars().take(80).flat_map(char::escape_default).collect::<String>()
            )),
        }
    }

    /// Whether lengths, ranges and validators of the headers are those of the file.
    pub(super) fn is_plain(headers: &HeaderMap) -> bool {
        Self::of(headers) == Ok(Coding::Identity)
    }
}

/// Whether the file itself may be a gzip, as its name or its type says.
fn may_be_a_gzip(url: &Url, headers: &HeaderMap) -> bool {
    let extension = url.path().rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(extension.as_deref(), Some("gz" | "tgz")) || content_type.ends_with("gzip")
}

/// Decodes a gzip piece by piece.
#[derive(Debug)]
pub(super) struct Decoder {
    gzip: MultiGzDecoder<Vec<u8>>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// What came, and what it is decoded: the file is one or the other.
    Open {
        raw: Vec<u8>,
        decoded: Vec<u8>,
    },
    Decoding,
    /// The gzip is the file.
    AsItIs,
}

impl Decoder {
    pub(super) fn new(url: &Url, headers: &HeaderMap) -> Self {
        let open = || State::Open { raw: Vec::new(), decoded: Vec::new() };
        let state = if may_be_a_gzip(url, headers) { open() } else { State::Decoding };
        Self { gzip: MultiGzDecoder::new(Vec::new()), state }
    }

    /// What a few bytes of the body are; perhaps nothing yet.
    pub(super) fn decode(&mut self, piece: &Bytes) -> Result<Bytes, String> {
        if matches!(self.state, State::AsItIs) {
            return Ok(piece.clone());
        }
        self.gzip.write_all(piece).and_then(|()| self.gzip.flush()).map_err(|error| damaged(&error))?;
        let more = std::mem::take(self.gzip.get_mut());
        match &mut self.state {
            State::Open { raw, decoded } => {
                raw.extend_from_slice(piece);
                decoded.extend_from_slice(&more);
                if decoded.len() >= GZIP.len() {
                    return Ok(self.decide());
                }
                if raw.len() > UNDECIDED {
                    return Err(damaged(&"its header does not end"));
                }
                Ok(Bytes::new())
            }
            _ => Ok(more.into()),
        }
    }

    /// What is left at the end of the body. Of a beginning that was cut off on purpose, nothing has to fit.
    pub(super) fn finish(&mut self, is_whole: bool) -> Result<Bytes, String> {
        match &self.state {
            State::AsItIs => return Ok(Bytes::new()),
            _ if is_whole => self.gzip.try_finish().map_err(|error| damaged(&error))?,
            _ => {}
        }
        let more = std::mem::take(self.gzip.get_mut());
        if let State::Open { decoded, .. } = &mut self.state {
            decoded.extend_from_slice(&more);
            return Ok(self.decide());
        }
        Ok(more.into())
    }

    fn decide(&mut self) -> Bytes {
        let State::Open { raw, decoded } = std::mem::replace(&mut self.state, State::Decoding) else {
            return Bytes::new();
        };
        if decoded.starts_with(GZIP) {
            return decoded.into();
        }
        self.state = State::AsItIs;
        raw.into()
    }
}

fn damaged(why: &dyn std::fmt::Display) -> String {
    format!("the server sends it encoded (`Content-Encoding: gzip`), and it cannot be decoded: {why}")
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn decoded(path: &str, content_type: &str, body: &[u8], piece: usize) -> Result<Vec<u8>, String> {
        let url = Url::parse(&format!("http://a.org/{path}")).unwrap();
        let mut decoder = Decoder::new(&url, &headers(&[("content-type", content_type)]));
        let mut all = Vec::new();
        for piece in body.chunks(piece) {
            all.extend_from_slice(&decoder.decode(&Bytes::copy_from_slice(piece))?);
        }
        all.extend_from_slice(&decoder.finish(true)?);
        Ok(all)
    }

    #[test]
    fn gzip_is_decoded_and_every_other_coding_refused_by_name() {
        for plain in [&[][..], &[("content-encoding", "identity")], &[("content-encoding", " , Identity")]] {
            assert_eq!(Coding::of(&headers(plain)), Ok(Coding::Identity));
        }
        for name in ["gzip", "X-Gzip", "identity, gzip"] {
            assert_eq!(Coding::of(&headers(&[("content-encoding", name)])), Ok(Coding::Gzip), "{name}");
        }
        for name in ["br", "deflate", "zstd", "compress", "gzip, gzip", "gzip, br", "aes128gcm"] {
            let why = Coding::of(&headers(&[("content-encoding", name)])).unwrap_err();
            assert!(why.contains(&format!("`Content-Encoding: {name}`")), "{why}");
            assert!(!Coding::is_plain(&headers(&[("content-encoding", name)])));
        }
    }

    #[test]
    fn a_file_that_is_itself_a_gzip_stays_one_and_loses_only_what_was_put_around_it() {
        let (file, twice) = (gzip(b"inner"), gzip(&gzip(b"inner")));
        for piece in [1, 7, 4096] {
            for (path, content_type) in
                [("a.tar.gz", "application/x-tar"), ("A.TGZ", ""), ("a", "application/x-gzip; x=y")]
            {
                assert_eq!(decoded(path, content_type, &file, piece), Ok(file.clone()), "{path}");
                assert_eq!(decoded(path, content_type, &twice, piece), Ok(file.clone()), "{path}");
            }
            assert_eq!(decoded("a.txt", "text/plain", &file, piece), Ok(b"inner".to_vec()));
            let empty = gzip(b"");
            assert_eq!(decoded("a.gz", "", &empty, piece), Ok(empty.clone()));
            assert_eq!(decoded("a.txt", "", &empty, piece), Ok(Vec::new()));
        }
    }

    #[test]
    fn a_gzip_that_is_damaged_or_cut_is_no_file() {
        let whole = gzip(&b"0123456789".repeat(1000));
        for end in [0, 1, 9, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
            assert!(decoded("a.txt", "", &whole[..end], 100).is_err(), "{end} of {}", whole.len());
        }
        let mut wrong = whole.clone();
        let crc = whole.len() - 6;
        wrong[crc] ^= 1;
        assert!(decoded("a.txt", "", &wrong, 100).unwrap_err().contains("Content-Encoding: gzip"));
        assert!(decoded("a.txt", "", b"plain text", 100).is_err());
        assert!(decoded("a.txt", "", &[whole, b"more".to_vec()].concat(), 100).is_err());
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded_however_it_comes(data: Vec<u8>, piece in 1..64_usize, members in 1..3_usize) {
            let body = gzip(&data).repeat(members);
            prop_assert_eq!(decoded("a", "", &body, piece), Ok(data.repeat(members)));
        }
    }
}

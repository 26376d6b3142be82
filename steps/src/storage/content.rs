//! Content on its way out, checked as it goes.

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};

use crate::digest::{Digest, Digests};
use crate::outcome::{Failure, Result};

/// A stream that fails at its end if the content is not what was stored.
pub(super) fn checked(
    pieces: BoxStream<'static, Result<Bytes>>,
    digest: Digest,
    name: String,
) -> BoxStream<'static, Result<Bytes>> {
    let digests = Digests::of([digest.algorithm()]);
    futures::stream::try_unfold((pieces, Some(digests)), move |(mut pieces, digests)| {
        let (digest, name) = (digest.clone(), name.clone());
        async move {
            let Some(mut digests) = digests else { return Ok(None) };
            if let Some(piece) = pieces.try_next().await? {
                digests.update(&piece);
                return Ok(Some((piece, (pieces, Some(digests)))));
            }
            if digests.finish() == [digest] {
                return Ok(None);
            }
            let why = format!("`{name}` is damaged: what was read is not what was stored; audit it");
            Err(Failure::fail(why))
        }
    })
    .boxed()
}

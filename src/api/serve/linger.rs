//! Ends of connections that a client still sends on.
//!
//! If a connection is closed while something waits to be read, the system tells the other side to forget all that it was
//! sent, the answer too. So a stream comes back from whoever has served it, and what the client still sends is thrown
//! away, for a while.
//!
//! **When things break.** Whoever sends on and on is cut: so many bytes, and so long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::oneshot;

/// The most bytes that are thrown away, and for how long.
const MOST: u64 = 16 << 20;
const LONGEST: Duration = Duration::from_secs(5);

/// A stream that comes back when whoever has it drops it.
#[derive(Debug)]
pub(super) struct Lent<S> {
    stream: Option<S>,
    back: Option<oneshot::Sender<S>>,
}

/// Lends a stream, and answers where it comes back.
pub(super) fn lend<S>(stream: S) -> (Lent<S>, oneshot::Receiver<S>) {
    let (back, returned) = oneshot::channel();
    (Lent { stream: Some(stream), back: Some(back) }, returned)
}

/// Lets the client read what it was answered.
pub(super) async fn linger<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let thrown_away = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(MOST), &mut tokio::io::sink()).await
    };
    // However it ends, nobody is owed anything.
    let _ = tokio::time::timeout(LONGEST, thrown_away).await;
}

impl<S> Drop for Lent<S> {
    fn drop(&mut self) {
        if let (Some(stream), Some(back)) = (self.stream.take(), self.back.take()) {
            let _ = back.send(stream);
        }
    }
}

impl<S: Unpin> Lent<S> {
    /// It is there until it is dropped.
    fn stream(&mut self) -> io::Result<Pin<&mut S>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lent<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lent<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(S::is_write_vectored)
    }
}

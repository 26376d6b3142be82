//! One connection through the proxy.
//!
//! Each direction is a reader and a writer with a queue between them. The reader cuts the stream into
//! frames, counts them and lets traps spring; the writer waits until the link lets an item pass. So a
//! delay or a stall holds frames back without holding up the frames behind them on their way in, and
//! everything stays in order, the closing of the connection included.
//!
//! A framed connection ends with its client: ZooKeeper's clients never close one half only. In a raw one
//! each half ends on its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::faults::{Action, DroppedReply, DroppedRequest, Lane, Link, Trap};
use crate::proxy::Shared;
use crate::wire::{
    ConnectResponse, NOTIFICATION, Reply, Request, RequestKind, frame_length, is_greeting, refusal,
};

/// The connection is over, for both directions.
struct Closed;

/// What travels from a reader to its writer.
struct Item {
    what: What,
    due: Instant,
    /// Held back until the link is healed, with all that follows.
    held: bool,
    /// Under which count of healings it was queued.
    healings: u64,
}

enum What {
    Bytes(Bytes),
    /// The sender has closed its half.
    Finish,
    /// The connection ends here.
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Undecided,
    Framed,
    Raw,
}

/// What both directions of one connection know.
struct Connection {
    shared: Arc<Shared>,
    /// The count of closings under which it was accepted.
    born: u64,
    mode: Mutex<Mode>,
    /// Traps that wait for the reply to a request; `None` is the greeting, which has no xid.
    awaited: Mutex<HashMap<Option<i32>, (RequestKind, Trap)>>,
    client_gone: watch::Sender<bool>,
    uncounted: AtomicBool,
}

/// Relays one client until either side, or the proxy's owner, ends it.
pub(crate) async fn relay(client: TcpStream, shared: Arc<Shared>, born: u64) {
    let mut link = shared.link.subscribe();
    let mode = if shared.framed { Mode::Undecided } else { Mode::Raw };
    shared.seen.connected();
    let connection = Connection {
        shared,
        born,
        mode: Mutex::new(mode),
        awaited: Mutex::default(),
        client_gone: watch::Sender::new(false),
        uncounted: AtomicBool::new(false),
    };
    let run = async {
        let Ok(server) = TcpStream::connect(connection.shared.target).await else { return };
        // Without it small frames wait for acknowledgements, and a test measures that instead.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        let (requests, request_queue) = unbounded_channel();
        let (replies, reply_queue) = unbounded_channel();
        let mut client_gone = connection.client_gone.subscribe();
        let deliver_replies = async {
            tokio::select! {
                _ = client_gone.wait_for(|gone| *gone) => Ok(()),
                end = connection.write(Lane::ToClient, reply_queue, to_client) => end,
            }
        };
        let _ = tokio::try_join!(
            connection.read(Lane::ToServer, from_client, requests),
            connection.write(Lane::ToServer, request_queue, to_server),
            connection.read(Lane::ToClient, from_server, replies),
            deliver_replies,
        );
    };
    tokio::select! {
        _ = link.wait_for(|link| link.closings != born) => {}
        () = run => {}
    }
    connection.end();
}

impl Connection {
    fn link(&self) -> Link {
        *self.shared.link.borrow()
    }

    /// Counts the client out, once.
    fn count_out(&self) {
        if !self.uncounted.swap(true, Ordering::Relaxed) {
            self.shared.seen.disconnected();
        }
    }

    fn end(&self) {
        for (_, (_, trap)) in self.awaited.lock().drain() {
            self.shared.traps.rearm(trap, &self.link());
        }
        self.count_out();
    }

    /// Reads one direction to its end.
    async fn read(
        &self,
        lane: Lane,
        mut from: OwnedReadHalf,
        queue: UnboundedSender<Item>,
    ) -> Result<(), Closed> {
        let mut buffer = BytesMut::with_capacity(16 << 10);
        let mut frames = 0;
        loop {
            let count = from.read_buf(&mut buffer).await.unwrap_or(0);
            if count == 0 {
                break;
            }
            self.shared.seen.bytes(lane, count);
            self.decide(lane, &buffer);
            while let Some(bytes) = self.next_piece(&mut buffer) {
                let (what, held) = if *self.mode.lock() == Mode::Framed {
                    frames += 1;
                    self.inspect(lane, frames == 1, bytes)
                } else {
                    (What::Bytes(bytes), false)
                };
                self.enqueue(lane, &queue, what, held);
            }
        }
        // An incomplete frame passes as it came: cutting it short is not the proxy's business.
        if !buffer.is_empty() {
            self.enqueue(lane, &queue, What::Bytes(buffer.freeze()), false);
        }
        let zookeeper = *self.mode.lock() == Mode::Framed;
        if zookeeper && lane == Lane::ToServer {
            self.client_gone.send_replace(true);
            self.count_out();
        }
        let last = if zookeeper && lane == Lane::ToClient { What::Close } else { What::Finish };
        self.enqueue(lane, &queue, last, false);
        Ok(())
    }

    fn enqueue(&self, lane: Lane, queue: &UnboundedSender<Item>, what: What, held: bool) {
        let link = self.link();
        let due = Instant::now() + link.delay[lane as usize];
        // Without a writer (its client is gone) there is nobody to deliver to.
        let _ = queue.send(Item { what, due, held, healings: link.healings });
    }

    /// Finds out what the connection speaks: a client of ZooKeeper greets first, its server never does.
    fn decide(&self, lane: Lane, buffer: &BytesMut) {
        let mut mode = self.mode.lock();
        if *mode != Mode::Undecided {
            return;
        }
        let head = buffer.first_chunk::<4>();
        match (lane, head) {
            (Lane::ToClient, _) => *mode = Mode::Raw,
            (Lane::ToServer, Some(head)) => {
                *mode = if is_greeting(*head) { Mode::Framed } else { Mode::Raw };
            }
            (Lane::ToServer, None) => {}
        }
    }

    /// The next whole frame, with its length; in a raw connection, all there is.
    fn next_piece(&self, buffer: &mut BytesMut) -> Option<Bytes> {
        let mode = *self.mode.lock();
        match mode {
            Mode::Undecided => None,
            Mode::Raw if buffer.is_empty() => None,
            Mode::Raw => Some(buffer.split().freeze()),
            Mode::Framed => {
                let Some(length) = frame_length(*buffer.first_chunk::<4>()?) else {
                    // Not ZooKeeper after all.
                    *self.mode.lock() = Mode::Raw;
                    return Some(buffer.split().freeze());
                };
                (buffer.len() >= 4 + length).then(|| buffer.split_to(4 + length).freeze())
            }
        }
    }

    /// Counts a frame and lets traps spring; returns what passes, and whether it is held.
    fn inspect(&self, lane: Lane, first: bool, frame: Bytes) -> (What, bool) {
        let body = frame.slice(4..);
        match lane {
            Lane::ToServer => (self.inspect_request(first, frame, &body), false),
            Lane::ToClient => self.inspect_reply(first, frame, &body),
        }
    }

    fn inspect_request(&self, first: bool, frame: Bytes, body: &[u8]) -> What {
        let request = if first {
            Request { xid: 0, kind: RequestKind::Connect }
        } else {
            match Request::decode(body) {
                Some(request) => request,
                None => return What::Bytes(frame),
            }
        };
        let Request { xid, kind } = request;
        // The trap first: whoever waits for the count must find it sprung.
        let trap = self.shared.traps.spring(kind, body);
        self.shared.seen.request(kind);
        match trap {
            None => What::Bytes(frame),
            Some(Trap { action: Action::DropRequest(tell), .. }) => {
                tell.send_replace(Some(DroppedRequest { xid, kind }));
                What::Close
            }
            Some(trap) => {
                self.awaited.lock().insert((!first).then_some(xid), (kind, trap));
                What::Bytes(frame)
            }
        }
    }

    fn inspect_reply(&self, first: bool, frame: Bytes, body: &[u8]) -> (What, bool) {
        let reply = if first {
            match ConnectResponse::decode(body) {
                Some(granted) if granted.session != 0 => self.shared.seen.session(granted),
                _ => {}
            }
            Some(Reply { xid: 0, zxid: 0, err: 0 })
        } else {
            Reply::decode(body)
        };
        let Some(Reply { xid, zxid, err }) = reply else { return (What::Bytes(frame), false) };
        if !first && xid == NOTIFICATION {
            self.shared.seen.notification();
            return (What::Bytes(frame), false);
        }
        let Some((kind, trap)) = self.awaited.lock().remove(&(!first).then_some(xid)) else {
            return (What::Bytes(frame), false);
        };
        if !trap.is_armed(&self.link()) {
            return (What::Bytes(frame), false);
        }
        let refused = (kind == RequestKind::Multi).then(|| refusal(body)).flatten();
        let reply = Some(DroppedReply { zxid, err: refused.unwrap_or(err), kind });
        match trap.action {
            Action::DropReply(tell) => {
                tell.send_replace(reply);
                (What::Close, false)
            }
            Action::StallReply(tell) => {
                tell.send_replace(reply);
                (What::Bytes(frame), true)
            }
            Action::DropRequest(_) => (What::Bytes(frame), false),
        }
    }

    /// Writes one direction, each item when the link lets it pass.
    async fn write(
        &self,
        lane: Lane,
        mut queue: UnboundedReceiver<Item>,
        mut to: OwnedWriteHalf,
    ) -> Result<(), Closed> {
        let mut link = self.shared.link.subscribe();
        while let Some(item) = queue.recv().await {
            pass(lane, &item, &mut link).await;
            // Asked after the frame was read: nothing passes that was sent after the order to close.
            if link.borrow().closings != self.born {
                return Err(Closed);
            }
            match item.what {
                What::Bytes(bytes) => to.write_all(&bytes).await.map_err(|_| Closed)?,
                What::Finish => return to.shutdown().await.map_err(|_| Closed),
                What::Close => return Err(Closed),
            }
        }
        Ok(())
    }
}

/// Waits until nothing holds the item back.
async fn pass(lane: Lane, item: &Item, link: &mut watch::Receiver<Link>) {
    loop {
        let now = *link.borrow_and_update();
        let healed = now.healings != item.healings;
        let held = now.stalled[lane as usize] || (item.held && !healed);
        if !held && (healed || item.due <= Instant::now()) {
            return;
        }
        tokio::select! {
            // The sender lives as long as the connection.
            _ = link.changed() => {}
            () = sleep_until(item.due), if !held => {}
        }
    }
}

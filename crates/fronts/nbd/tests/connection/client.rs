//! A client whose messages the test chooses.

use block::Memory;
use block::Part;
use lane::Lane;
use nbd::client::{Agreed, Event, Fault, Negotiation, Replies, UnderWay, Wish};
use nbd::codec::*;
use nbd::{Pipe, Wire};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// A reply in transmission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    pub(crate) cookie: u64,
    pub(crate) error: u32,
    pub(crate) data: Vec<u8>,
}

/// Parses replies with the crate's own client, and sends any bytes.
pub(crate) struct Client<W = Pipe> {
    pub(crate) wire: W,
    pub(crate) structured: bool,
    replies: RefCell<Replies>,
    under_way: RefCell<UnderWay>,
    /// The start of a request that is being sent.
    request_start: RefCell<Vec<u8>>,
    /// Bytes of its payload that are still to be sent.
    payload: Cell<usize>,
}

pub(crate) fn request(command: u16, cookie: u64, offset: u64, length: u32) -> RequestHeader {
    RequestHeader { flags: 0, command, cookie, offset, length }
}

/// Runs two futures at the same time: a client that only sends would block a server that only
/// sends.
pub(crate) async fn both<T>(one: impl Future<Output = ()>, two: impl Future<Output = T>) -> T {
    let (mut one, mut two) = (pin!(one), pin!(two));
    let (mut one_done, mut result) = (false, None);
    std::future::poll_fn(|context| {
        one_done = one_done || one.as_mut().poll(context).is_ready();
        if result.is_none()
            && let Poll::Ready(value) = two.as_mut().poll(context)
        {
            result = Some(value);
        }
        if one_done && let Some(value) = result.take() { Poll::Ready(value) } else { Poll::Pending }
    })
    .await
}

impl<W: Wire> Client<W> {
    pub(crate) fn new(wire: W, structured: bool) -> Client<W> {
        Client {
            wire,
            structured,
            // The server has one context.
            replies: RefCell::new(Replies::new(structured, vec![1])),
            under_way: RefCell::default(),
            request_start: RefCell::default(),
            payload: Cell::default(),
        }
    }

    /// Records the requests that these bytes contain, as far as they are valid.
    pub(crate) fn note(&self, bytes: &[u8]) {
        let (mut request_start, mut rest) = (self.request_start.borrow_mut(), bytes);
        while !rest.is_empty() {
            let payload = self.payload.get().min(rest.len());
            let head = (REQUEST_BYTES - request_start.len()).min(rest.len() - payload);
            request_start.extend_from_slice(&rest[payload..payload + head]);
            rest = &rest[payload + head..];
            self.payload.set(self.payload.get() - payload);
            if request_start.len() == REQUEST_BYTES {
                let header = request_start.first_chunk().and_then(RequestHeader::parse);
                request_start.clear();
                let Some(header) = header else { return };
                let writes = header.command == NBD_CMD_WRITE;
                self.payload.set(if writes { header.length as usize } else { 0 });
                // Requests that reuse a cookie in flight are not tracked.
                let mut under_way = self.under_way.borrow_mut();
                if !under_way.holds(header.cookie) {
                    under_way.ask(&header, &mut Vec::new());
                }
            }
            let magic = NBD_REQUEST_MAGIC.to_be_bytes();
            if !magic.starts_with(&request_start[..request_start.len().min(4)]) {
                // Not a request: an option, or invalid bytes.
                request_start.clear();
                return;
            }
        }
    }

    pub(crate) async fn send(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.note(bytes);
        let memory = Arc::new(Memory::heap(bytes.len()));
        memory.write(0, bytes);
        let length = bytes.len();
        let part = Part { memory, offset: 0, length };
        // A server that has disconnected is detected later, by the missing reply.
        let _ = self.wire.send(&[part]).await;
    }

    /// Receives exactly `length` bytes. None: the server has closed the connection before that.
    pub(crate) async fn receive(&self, length: usize) -> Option<Vec<u8>> {
        let memory = Arc::new(Memory::heap(length));
        let mut filled = 0;
        while filled < length {
            let rest = length - filled;
            let count = self.wire.receive(&memory, filled, rest).await.ok()?;
            if count == 0 {
                return None;
            }
            filled += count;
        }
        let mut bytes = vec![0; length];
        memory.read(0, &mut bytes);
        Some(bytes)
    }

    async fn exactly<const BYTES: usize>(&self) -> Option<[u8; BYTES]> {
        self.receive(BYTES).await?.try_into().ok()
    }

    /// Receives the greeting, and sends the flags.
    pub(crate) async fn greet(&self, flags: u32) {
        let bytes = self.exactly().await.expect("a greeting");
        let greeting = Greeting::parse(&bytes).expect("a newstyle server");
        assert_eq!(greeting.flags, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
        self.send(&flags.to_be_bytes()).await;
    }

    pub(crate) async fn option_reply(&self, option: u32) -> Option<(u32, Vec<u8>)> {
        let header = OptionReplyHeader::parse(&self.exactly().await?).expect("its magic");
        assert_eq!(header.option, option);
        Some((header.kind, self.receive(header.length as usize).await?))
    }

    /// Sends an option. Returns all its replies, the final one last.
    pub(crate) async fn option(&self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut bytes = Vec::new();
        put_option(&mut bytes, option, data);
        self.send(&bytes).await;
        let mut replies = Vec::new();
        while let Some((kind, data)) = self.option_reply(option).await {
            replies.push((kind, data));
            if kind == NBD_REP_ACK || kind & 1 << 31 != 0 {
                break;
            }
        }
        replies
    }

    /// Enters transmission with the default export, as the crate's own client does.
    pub(crate) async fn go(&self) -> (ExportInfo, BlockSizes) {
        let wish = Wish { sizes: true, structured: self.structured, ..Wish::default() };
        let agreed = self.negotiate(wish).await.expect("the export is open");
        assert_eq!(agreed.structured, self.structured);
        (agreed.export, agreed.sizes.expect("asked for"))
    }

    /// Performs a handshake of the crate's own client, which receives one byte at a time.
    pub(crate) async fn negotiate(&self, wish: Wish) -> Result<Agreed, Fault> {
        let mut negotiation = Negotiation::new(wish);
        loop {
            let byte = self.receive(1).await.expect("the server goes on");
            let mut out = Vec::new();
            let agreed = negotiation.take(&mut &byte[..], &mut out)?;
            self.send(&out).await;
            if let Some(agreed) = agreed {
                return Ok(agreed);
            }
        }
    }

    /// Greets, and requests structured replies if the client uses them.
    pub(crate) async fn haggle(&self) {
        self.greet(NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES).await;
        if self.structured {
            let replies = self.option(NBD_OPT_STRUCTURED_REPLY, &[]).await;
            assert_eq!(replies, [(NBD_REP_ACK, vec![])]);
        }
    }

    /// Enters transmission with an export.
    pub(crate) async fn enter(&self, name: &str) -> (ExportInfo, BlockSizes) {
        let data = InfoRequest::encode(name, &[NBD_INFO_BLOCK_SIZE]);
        let replies = self.option(NBD_OPT_GO, &data).await;
        assert_eq!(replies.last(), Some(&(NBD_REP_ACK, vec![])));
        let infos = || replies.iter().filter(|(kind, _)| *kind == NBD_REP_INFO);
        let export = infos().find_map(|(_, data)| ExportInfo::parse(data));
        let sizes = infos().find_map(|(_, data)| BlockSizes::parse(data));
        (export.expect("always told"), sizes.expect("asked for"))
    }

    /// Receives the next reply. The server sends each reply in one chunk.
    pub(crate) async fn reply(&self) -> Option<Reply> {
        let (mut input, mut came, mut data) = (Vec::new(), 0, Vec::new());
        let mut head = SIMPLE_REPLY_BYTES;
        loop {
            let mut rest = &input[..];
            let event = self.replies.borrow_mut().take(&mut rest, &mut self.under_way.borrow_mut());
            match event.expect("what the protocol allows") {
                None => {}
                Some(Event::Data { bytes, .. }) => {
                    head = if self.structured { DATA_CHUNK_BYTES } else { SIMPLE_REPLY_BYTES };
                    data.extend_from_slice(bytes);
                }
                Some(Event::Status { context, extents, .. }) => {
                    head = CHUNK_HEADER_BYTES;
                    data.extend(context.to_be_bytes());
                    data.extend(extents.iter().flat_map(Descriptor::encode));
                }
                Some(Event::Done { cookie, error }) => {
                    if error != 0 && came > SIMPLE_REPLY_BYTES {
                        head = ERROR_CHUNK_BYTES;
                    }
                    assert_eq!(came, head + data.len(), "not one chunk");
                    return Some(Reply { cookie, error, data });
                }
                Some(event) => panic!("the server has no holes in replies: {event:?}"),
            }
            input = rest.to_vec();
            let needs = self.replies.borrow().needs();
            if input.is_empty() && needs > 0 {
                input = self.receive(needs).await?;
                came += needs;
            }
        }
    }

    /// Whether any data arrives within a millisecond. One byte of it is then lost.
    pub(crate) async fn receives_something(&self, lane: &Lane) -> bool {
        let is_received = Cell::new(false);
        let hearing = async {
            self.receive(1).await;
            is_received.set(true);
        };
        lane::first(hearing, lane.sleep_until(lane.now() + 1_000_000)).await;
        is_received.get()
    }

    /// Sends a write, and its last sector only if no reply has come before it. Returns the error.
    pub(crate) async fn write_in_two(&self, lane: &Lane, offset: u64, length: usize) -> u32 {
        let header = request(NBD_CMD_WRITE, offset ^ 81, offset, length as u32);
        let mut bytes = header.encode().to_vec();
        bytes.resize(REQUEST_BYTES + length - 512, 7);
        self.send(&bytes).await;
        assert!(
            !self.receives_something(lane).await,
            "a reply to a request that is still being sent"
        );
        self.send(&[7; 512]).await;
        let reply = self.reply().await.expect("a reply");
        assert_eq!(reply.cookie, header.cookie);
        reply.error
    }

    /// Sends one request. Returns the error, and the data of a read.
    pub(crate) async fn ask(&self, header: RequestHeader, payload: &[u8]) -> (u32, Vec<u8>) {
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(payload);
        self.send(&bytes).await;
        let reply = self.reply().await.expect("a reply");
        assert_eq!(reply.cookie, header.cookie);
        (reply.error, reply.data)
    }

    pub(crate) async fn read(&self, offset: u64, length: u32) -> (u32, Vec<u8>) {
        self.ask(request(NBD_CMD_READ, offset ^ 77, offset, length), &[]).await
    }

    pub(crate) async fn write(&self, flags: u16, offset: u64, data: &[u8]) -> u32 {
        let mut header = request(NBD_CMD_WRITE, offset ^ 78, offset, data.len() as u32);
        header.flags = flags;
        self.ask(header, data).await.0
    }

    pub(crate) async fn plain(&self, command: u16, flags: u16, offset: u64, length: u32) -> u32 {
        let mut header = request(command, offset ^ 79, offset, length);
        header.flags = flags;
        self.ask(header, &[]).await.0
    }

    /// Selects contexts for an export. Returns the replies.
    pub(crate) async fn select(&self, name: &str, queries: &[&str]) -> Vec<(u32, Vec<u8>)> {
        let data = MetaRequest::encode(name, queries);
        self.option(NBD_OPT_SET_META_CONTEXT, &data).await
    }

    /// Requests block status. Returns the error, and lengths with flags.
    pub(crate) async fn status(
        &self,
        flags: u16,
        offset: u64,
        length: u32,
    ) -> (u32, Vec<(u32, u32)>) {
        let mut header = request(NBD_CMD_BLOCK_STATUS, offset ^ 80, offset, length);
        header.flags = flags;
        let (error, body) = self.ask(header, &[]).await;
        if error != 0 {
            return (error, vec![]);
        }
        let (context, list) = parse_status(&body).expect("descriptors");
        assert_eq!(context, 1, "the number that was told");
        (0, list.iter().map(|next| (next.length, next.flags)).collect())
    }

    pub(crate) async fn goodbye(&self) {
        self.send(&request(NBD_CMD_DISC, 0, 0, 0).encode()).await;
        assert_eq!(self.receive(1).await, None, "the server hangs up");
    }
}

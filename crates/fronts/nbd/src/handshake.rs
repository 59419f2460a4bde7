//! The server's side of the handshake: fixed newstyle.

use crate::action::Features;
use crate::codec::*;
use crate::end::End;
use crate::exports::{Exports, block_sizes, info};
use crate::inbox::Inbox;
use crate::status::ALLOCATION_ID;
use block::Wire;
use block::{Memory, Part};
use export::Export;
use std::rc::Rc;
use std::sync::Arc;

/// Initial size of the receive buffer: enough for the whole handshake of most clients. A longer
/// option makes it grow, up to that option's length.
const INBOX_BYTES: usize = 4096;

type Step<T> = std::result::Result<T, End>;

/// The result of the handshake.
pub(crate) struct Agreed {
    pub(crate) export: Rc<Export>,
    pub(crate) features: Features,
    /// Includes bytes that the client may have sent after its last option.
    pub(crate) inbox: Inbox,
}

pub(crate) struct Handshake<'a, W> {
    wire: &'a W,
    inbox: Inbox,
    exports: &'a Exports,
    /// Whether replies are sent in chunks.
    structured: bool,
    /// The name of the export for which the client has selected `base:allocation`.
    selected: Option<String>,
    /// Whether the client requires 124 zeros after the reply to `NBD_OPT_EXPORT_NAME`.
    zeroes: bool,
}

impl<'a, W: Wire> Handshake<'a, W> {
    pub(crate) fn new(wire: &'a W, exports: &'a Exports) -> Handshake<'a, W> {
        let inbox = Inbox::new(INBOX_BYTES);
        Handshake { wire, inbox, exports, structured: false, selected: None, zeroes: true }
    }

    /// Negotiates until the client enters transmission.
    pub(crate) async fn run(mut self) -> Step<Agreed> {
        let flags = NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES;
        self.send(&Greeting { flags }.encode()).await?;
        let flags = u32::from_be_bytes(self.next().await?);
        if flags & !(NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES) != 0 {
            return Err(End::Malformed("client flags that this server does not support"));
        }
        self.zeroes = flags & NBD_FLAG_C_NO_ZEROES == 0;
        for _ in 0..OPTIONS_MAX {
            if let Some((export, features)) = self.serve_option().await? {
                return Ok(Agreed { export, features, inbox: self.inbox });
            }
        }
        Err(End::Malformed("more than 1000 options"))
    }

    /// Receives one option and answers it. Some: the client enters transmission.
    async fn serve_option(&mut self) -> Step<Option<(Rc<Export>, Features)>> {
        let header = OptionHeader::parse(&self.next().await?);
        let header = header.ok_or(End::Malformed("an option without its magic number"))?;
        let (option, length) = (header.option, header.length as usize);
        let mut out = Vec::new();
        if length > OPTION_BYTES_MAX {
            self.refuse_long(option, length, &mut out).await?;
            self.send(&out).await?;
            return Ok(None);
        }
        self.buffer_bytes(length).await?;
        let data = self.inbox.take(length);
        let entered = self.answer(&mut out, option, &data)?;
        let sent = self.send(&out).await;
        if option == NBD_OPT_ABORT {
            // The client need not wait for this answer.
            return Err(End::Disconnected);
        }
        sent?;
        Ok(entered.map(|(export, name)| {
            let status = self.structured && self.selected.as_deref() == Some(name);
            (export, Features { structured: self.structured, status })
        }))
    }

    /// Skips the data of an option that is longer than any valid one.
    async fn refuse_long(&mut self, option: u32, length: usize, out: &mut Vec<u8>) -> Step<()> {
        if length > OPTION_SKIPPED_BYTES_MAX {
            return Err(End::Malformed("an option of more than 16 MiB"));
        }
        let mut rest = length;
        while rest > 0 {
            self.buffer_bytes(1).await?;
            let count = rest.min(self.inbox.available());
            self.inbox.consume(count);
            rest -= count;
        }
        match option {
            NBD_OPT_EXPORT_NAME => return Err(End::Refused),
            NBD_OPT_ABORT => return Err(End::Disconnected),
            NBD_OPT_SET_META_CONTEXT => self.selected = None,
            _ => (),
        }
        let known = NBD_OPT_LIST..=NBD_OPT_SET_META_CONTEXT;
        let is_known = known.contains(&option) && option != NBD_OPT_STARTTLS && option != 4;
        let refusal = if is_known { NBD_REP_ERR_TOO_BIG } else { NBD_REP_ERR_UNSUP };
        put_reply(out, option, refusal, &[]);
        Ok(())
    }

    /// Waits until `bytes` bytes have arrived.
    async fn buffer_bytes(&mut self, bytes: usize) -> Step<()> {
        if bytes > self.inbox.capacity() {
            let small = std::mem::replace(&mut self.inbox, Inbox::new(0));
            self.inbox = small.resized(bytes.next_power_of_two());
        }
        while self.inbox.available() < bytes {
            match self.inbox.receive(self.wire).await {
                Ok(0) => return Err(End::Closed),
                Ok(_) => (),
                Err(error) => return Err(End::Failed(error)),
            }
        }
        Ok(())
    }

    async fn next<const BYTES: usize>(&mut self) -> Step<[u8; BYTES]> {
        self.buffer_bytes(BYTES).await?;
        let bytes = self.inbox.peek().ok_or(End::Closed)?;
        self.inbox.consume(BYTES);
        Ok(bytes)
    }

    async fn send(&self, bytes: &[u8]) -> Step<()> {
        let memory = Arc::new(Memory::heap(bytes.len()));
        memory.write(0, bytes);
        let part = Part { memory, offset: 0, length: bytes.len() };
        self.wire.send(&[part]).await.map_err(End::Failed)
    }

    /// Answers one option. Some: the client enters transmission with this export, under this name.
    fn answer<'d>(
        &mut self,
        out: &mut Vec<u8>,
        option: u32,
        data: &'d [u8],
    ) -> Step<Option<(Rc<Export>, &'d str)>> {
        let refusal = match option {
            NBD_OPT_EXPORT_NAME => {
                let name = export_name(data).map_err(|_| End::Refused)?;
                let export = self.exports.find(name).ok_or(End::Refused)?;
                *out = export_name_reply(&info(&export, self.structured), self.zeroes);
                return Ok(Some((export, name)));
            }
            NBD_OPT_INFO | NBD_OPT_GO => match self.put_info(out, option, data) {
                Ok(entered) => return Ok(Some(entered).filter(|_| option == NBD_OPT_GO)),
                Err(refusal) => Err(refusal),
            },
            NBD_OPT_LIST | NBD_OPT_STRUCTURED_REPLY if !data.is_empty() => Err(NBD_REP_ERR_INVALID),
            NBD_OPT_LIST => {
                self.put_list(out);
                Ok(())
            }
            NBD_OPT_STRUCTURED_REPLY => {
                self.structured = true;
                Ok(())
            }
            NBD_OPT_LIST_META_CONTEXT => self.put_contexts(out, data),
            NBD_OPT_SET_META_CONTEXT => self.select(out, data),
            // Its data is ignored.
            NBD_OPT_ABORT => Ok(()),
            _ => Err(NBD_REP_ERR_UNSUP),
        };
        put_reply(out, option, refusal.err().unwrap_or(NBD_REP_ACK), &[]);
        Ok(None)
    }

    fn put_list(&self, out: &mut Vec<u8>) {
        for export in self.exports.all() {
            let data = listed(&export.name, &export.description);
            put_reply(out, NBD_OPT_LIST, NBD_REP_SERVER, &data);
        }
    }

    /// Appends all information about an export. Includes its block sizes even without a request for
    /// them: requests that are not multiples of the minimum are refused later.
    fn put_info<'d>(
        &self,
        out: &mut Vec<u8>,
        option: u32,
        data: &'d [u8],
    ) -> std::result::Result<(Rc<Export>, &'d str), u32> {
        let request = InfoRequest::parse(data)?;
        let export = self.exports.find(request.name).ok_or(NBD_REP_ERR_UNKNOWN)?;
        let mut put = |data: &[u8]| put_reply(out, option, NBD_REP_INFO, data);
        put(&info_export(&info(&export, self.structured)));
        put(&info_block_size(&block_sizes(&export)));
        if request.requests_info(NBD_INFO_NAME) {
            put(&info_text(NBD_INFO_NAME, &export.name));
        }
        if request.requests_info(NBD_INFO_DESCRIPTION) && !export.description.is_empty() {
            put(&info_text(NBD_INFO_DESCRIPTION, &export.description));
        }
        put_reply(out, option, NBD_REP_ACK, &[]);
        Ok((export.clone(), request.name))
    }

    /// Parses the data of an option about metadata contexts, and checks that the export exists.
    fn meta<'d>(&self, data: &'d [u8]) -> std::result::Result<MetaRequest<'d>, u32> {
        if !self.structured {
            return Err(NBD_REP_ERR_INVALID);
        }
        let request = MetaRequest::parse(data)?;
        self.exports.find(request.name).ok_or(NBD_REP_ERR_UNKNOWN)?;
        Ok(request)
    }

    /// Lists the requested contexts. Unknown contexts are ignored.
    fn put_contexts(&self, out: &mut Vec<u8>, data: &[u8]) -> std::result::Result<(), u32> {
        let request = self.meta(data)?;
        let everything = request.queries().next().is_none();
        let known = [BASE_WILDCARD, ALLOCATION_CONTEXT];
        if everything || request.queries().any(|query| known.contains(&query)) {
            // The number is reserved in this reply.
            let data = meta_context(0, ALLOCATION_CONTEXT);
            put_reply(out, NBD_OPT_LIST_META_CONTEXT, NBD_REP_META_CONTEXT, &data);
        }
        Ok(())
    }

    /// Selects contexts, and replaces the previous selection even if this fails.
    fn select(&mut self, out: &mut Vec<u8>, data: &[u8]) -> std::result::Result<(), u32> {
        self.selected = None;
        let request = self.meta(data)?;
        if request.queries().any(|query| query == ALLOCATION_CONTEXT) {
            self.selected = Some(request.name.to_owned());
            let data = meta_context(ALLOCATION_ID, ALLOCATION_CONTEXT);
            put_reply(out, NBD_OPT_SET_META_CONTEXT, NBD_REP_META_CONTEXT, &data);
        }
        Ok(())
    }
}

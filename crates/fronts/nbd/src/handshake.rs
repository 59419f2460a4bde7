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

/// The protection of a connection by TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protection {
    /// There is none, and none can be started.
    Refused,
    /// There is none yet.
    Offered,
    /// There is none yet, and nothing else is served before there is.
    Required,
    /// The connection is encrypted.
    Active,
}

/// The result of the handshake.
pub(crate) enum Entry {
    /// The client enters transmission.
    Transmission(Agreed),
    /// The client starts TLS. Nothing that was negotiated before is valid after that, except
    /// whether the client requires 124 zeros, which it has sent before all options.
    Tls { zeroes: bool },
}

/// The client's choice that ends the options.
enum Choice {
    Export(Rc<Export>, Features),
    Tls,
}

/// The agreement of both sides on an export.
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
    protection: Protection,
    /// Whether replies are sent in chunks.
    structured: bool,
    /// The name of the export for which the client has selected `base:allocation`.
    selected: Option<String>,
    /// Whether the client requires 124 zeros after the reply to `NBD_OPT_EXPORT_NAME`.
    zeroes: bool,
}

impl<'a, W: Wire> Handshake<'a, W> {
    pub(crate) fn new(
        wire: &'a W,
        exports: &'a Exports,
        protection: Protection,
    ) -> Handshake<'a, W> {
        let (inbox, zeroes) = (Inbox::new(INBOX_BYTES), true);
        Handshake { wire, inbox, exports, protection, structured: false, selected: None, zeroes }
    }

    /// Continues a handshake over a wire that is encrypted since then.
    pub(crate) fn protected(wire: &'a W, exports: &'a Exports, zeroes: bool) -> Handshake<'a, W> {
        Handshake { zeroes, ..Handshake::new(wire, exports, Protection::Active) }
    }

    /// Negotiates from the greeting on, until the client enters transmission or starts TLS.
    pub(crate) async fn run(mut self) -> Step<Entry> {
        self.greet().await?;
        self.serve_options().await
    }

    async fn greet(&mut self) -> Step<()> {
        let flags = NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES;
        self.send(&Greeting { flags }.encode()).await?;
        let flags = u32::from_be_bytes(self.next().await?);
        if flags & !(NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES) != 0 {
            return Err(End::Malformed("client flags that this server does not support"));
        }
        self.zeroes = flags & NBD_FLAG_C_NO_ZEROES == 0;
        Ok(())
    }

    /// Serves options until the client enters transmission or starts TLS.
    pub(crate) async fn serve_options(mut self) -> Step<Entry> {
        for _ in 0..OPTIONS_MAX {
            match self.serve_option().await? {
                None => {}
                Some(Choice::Tls) => return Ok(Entry::Tls { zeroes: self.zeroes }),
                Some(Choice::Export(export, features)) => {
                    let agreed = Agreed { export, features, inbox: self.inbox };
                    return Ok(Entry::Transmission(agreed));
                }
            }
        }
        Err(End::Malformed("more than 1000 options"))
    }

    /// Receives one option and answers it. Some: it is the last one.
    async fn serve_option(&mut self) -> Step<Option<Choice>> {
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
        if option == NBD_OPT_STARTTLS {
            let starts = self.answer_start_tls(&mut out, &data)?;
            self.send(&out).await?;
            return Ok(starts.then_some(Choice::Tls));
        }
        if self.protection == Protection::Required && option != NBD_OPT_ABORT {
            put_reply(&mut out, option, self.refuse_unprotected(option)?, &[]);
            self.send(&out).await?;
            return Ok(None);
        }
        let entered = self.answer(&mut out, option, &data)?;
        let sent = self.send(&out).await;
        if option == NBD_OPT_ABORT {
            // The client need not wait for this answer.
            return Err(End::Disconnected);
        }
        sent?;
        Ok(entered.map(|(export, name)| {
            let status = self.structured && self.selected.as_deref() == Some(name);
            Choice::Export(export, Features { structured: self.structured, status })
        }))
    }

    /// Answers the option that starts TLS. Returns whether the client may start now.
    ///
    /// # Errors
    /// Bytes follow the option. A client waits for the answer before it sends more, so another
    /// party may have added them, to be taken for bytes of the encrypted connection.
    fn answer_start_tls(&self, out: &mut Vec<u8>, data: &[u8]) -> Step<bool> {
        let reply = match self.protection {
            Protection::Refused => NBD_REP_ERR_UNSUP,
            Protection::Active => NBD_REP_ERR_INVALID,
            _ if !data.is_empty() => NBD_REP_ERR_INVALID,
            _ if self.inbox.available() > 0 => {
                return Err(End::Malformed("unencrypted bytes after NBD_OPT_STARTTLS"));
            }
            _ => NBD_REP_ACK,
        };
        put_reply(out, NBD_OPT_STARTTLS, reply, &[]);
        Ok(reply == NBD_REP_ACK)
    }

    /// Returns the reply to an option that is only served over TLS.
    ///
    /// # Errors
    /// The option has no reply for errors.
    fn refuse_unprotected(&self, option: u32) -> Step<u32> {
        match option {
            NBD_OPT_EXPORT_NAME => Err(End::Unprotected),
            _ => Ok(NBD_REP_ERR_TLS_REQD),
        }
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
        let has_tls = self.protection != Protection::Refused;
        let is_known =
            known.contains(&option) && option != 4 && (option != NBD_OPT_STARTTLS || has_tls);
        let refusal = match is_known {
            _ if self.protection == Protection::Required => NBD_REP_ERR_TLS_REQD,
            true => NBD_REP_ERR_TOO_BIG,
            false => NBD_REP_ERR_UNSUP,
        };
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

//! The server's side of the handshake: fixed newstyle.

use crate::codec::*;
use crate::export::{Export, Exports};
use crate::inbox::Inbox;
use crate::server::End;
use crate::wire::Wire;
use block::Memory;
use block::Part;
use std::rc::Rc;
use std::sync::Arc;

type Step<T> = std::result::Result<T, End>;

/// What both sides have agreed on.
pub(crate) struct Agreed {
    pub(crate) export: Rc<Export>,
    /// Reads are answered in chunks.
    pub(crate) structured: bool,
}

pub(crate) struct Handshake<'a, W> {
    pub(crate) wire: &'a W,
    pub(crate) inbox: &'a mut Inbox,
    pub(crate) exports: &'a Exports,
    pub(crate) structured: bool,
    /// The client wants 124 zeros after the reply to `NBD_OPT_EXPORT_NAME`.
    pub(crate) zeroes: bool,
}

impl<W: Wire> Handshake<'_, W> {
    /// Haggles until the client enters transmission.
    pub(crate) async fn run(mut self) -> Step<Agreed> {
        let flags = NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES;
        self.send(&Greeting { flags }.encode()).await?;
        let flags = u32::from_be_bytes(self.next().await?);
        if flags & !(NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES) != 0 {
            return Err(End::Malformed("client flags that this server does not know"));
        }
        self.zeroes = flags & NBD_FLAG_C_NO_ZEROES == 0;
        loop {
            let header = OptionHeader::parse(&self.next().await?);
            let header = header.ok_or(End::Malformed("an option without its magic number"))?;
            let length = header.length as usize;
            if length > OPTION_BYTES_MAX {
                return Err(End::Malformed("an option of more than 64 KiB"));
            }
            self.want(length).await?;
            let data = self.inbox.take(length);
            if let Some(agreed) = self.answer(header.option, &data).await? {
                return Ok(agreed);
            }
        }
    }

    /// Waits until so many bytes have come.
    async fn want(&mut self, bytes: usize) -> Step<()> {
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
        self.want(BYTES).await?;
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

    /// Answers one option. Some: the client enters transmission with it.
    async fn answer(&mut self, option: u32, data: &[u8]) -> Step<Option<Agreed>> {
        let mut out = Vec::new();
        let mut entered = None;
        match option {
            NBD_OPT_EXPORT_NAME => {
                let export = self.named(data).ok_or(End::Refused)?;
                out = export_name_reply(&export.info(self.structured), self.zeroes);
                entered = Some(export);
            }
            NBD_OPT_INFO | NBD_OPT_GO => match self.put_info(&mut out, option, data) {
                Ok(export) => entered = Some(export).filter(|_| option == NBD_OPT_GO),
                Err(refusal) => put_reply(&mut out, option, refusal, &[]),
            },
            NBD_OPT_LIST | NBD_OPT_STARTTLS | NBD_OPT_STRUCTURED_REPLY if !data.is_empty() => {
                put_reply(&mut out, option, NBD_REP_ERR_INVALID, &[]);
            }
            NBD_OPT_LIST => self.put_list(&mut out),
            NBD_OPT_STRUCTURED_REPLY => {
                self.structured = true;
                put_reply(&mut out, option, NBD_REP_ACK, &[]);
            }
            NBD_OPT_ABORT => {
                put_reply(&mut out, option, NBD_REP_ACK, &[]);
                // The client may have gone already; it has told us that it would.
                let _ = self.send(&out).await;
                return Err(End::Disconnected);
            }
            _ => put_reply(&mut out, option, NBD_REP_ERR_UNSUP, &[]),
        }
        self.send(&out).await?;
        Ok(entered.map(|export| Agreed { export, structured: self.structured }))
    }

    fn named(&self, data: &[u8]) -> Option<Rc<Export>> {
        self.exports.find(export_name(data).ok()?).cloned()
    }

    fn put_list(&self, out: &mut Vec<u8>) {
        for export in self.exports.iter() {
            let data = listed(&export.name, &export.description);
            put_reply(out, NBD_OPT_LIST, NBD_REP_SERVER, &data);
        }
        put_reply(out, NBD_OPT_LIST, NBD_REP_ACK, &[]);
    }

    /// Everything about an export. Its block sizes are told without being asked for: a request
    /// that is not a multiple of the smallest one is refused later.
    fn put_info(
        &self,
        out: &mut Vec<u8>,
        option: u32,
        data: &[u8],
    ) -> std::result::Result<Rc<Export>, u32> {
        let request = InfoRequest::parse(data)?;
        let export = self.exports.find(request.name).ok_or(NBD_REP_ERR_UNKNOWN)?;
        let mut put = |data: &[u8]| put_reply(out, option, NBD_REP_INFO, data);
        put(&info_export(&export.info(self.structured)));
        put(&info_block_size(&export.block_sizes()));
        if request.wants(NBD_INFO_NAME) {
            put(&info_text(NBD_INFO_NAME, &export.name));
        }
        if request.wants(NBD_INFO_DESCRIPTION) && !export.description.is_empty() {
            put(&info_text(NBD_INFO_DESCRIPTION, &export.description));
        }
        put_reply(out, option, NBD_REP_ACK, &[]);
        Ok(export.clone())
    }
}

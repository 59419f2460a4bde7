//! The handshake, as a state machine over bytes.

use super::Fault;
use crate::codec::*;

/// Maximum number of replies to one option; this client's options need far fewer.
const REPLIES_MAX: usize = 1000;

/// The export and the features that a client requests.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Wish {
    /// Name of the export; empty: the default export.
    pub export: String,
    /// Whether to request block sizes. A client that requests them must observe them.
    pub sizes: bool,
    /// Whether to request structured replies.
    pub structured: bool,
    /// Metadata contexts to select, such as `base:allocation`. They require structured replies.
    pub contexts: Vec<String>,
}

impl Wish {
    /// Requests an export by its name, and no features.
    pub fn export(name: &str) -> Wish {
        Wish { export: name.to_owned(), ..Wish::default() }
    }
}

/// The result of the handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// The export's size and `NBD_FLAG_...`.
    pub export: ExportInfo,
    /// None: not sent. A server may send them without a request.
    pub sizes: Option<BlockSizes>,
    /// Whether replies are structured.
    pub structured: bool,
    /// The selected contexts: the number that chunks carry, and the name.
    pub contexts: Vec<(u32, String)>,
}

impl Agreed {
    /// Whether another handshake had the same result. Numbers of contexts are not compared: a
    /// server may choose others for each connection.
    pub fn is_alike(&self, other: &Agreed) -> bool {
        let names = |agreed: &Agreed| {
            let mut names: Vec<String> =
                agreed.contexts.iter().map(|context| context.1.clone()).collect();
            names.sort();
            names
        };
        (self.export, self.sizes, self.structured) == (other.export, other.sizes, other.structured)
            && names(self) == names(other)
    }

    /// Whether the export has this `NBD_FLAG_...`.
    pub fn can(&self, flag: u16) -> bool {
        self.export.flags & flag != 0
    }
}

/// The message that is expected next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Greeting,
    /// Replies to this option.
    Option(u32),
    /// Nothing: the caller starts TLS.
    Tls,
    Over,
}

/// A handshake in progress: fixed newstyle, with `NBD_OPT_GO`.
///
/// With [`Negotiation::over_tls`], the handshake pauses once the server has agreed to start it
/// ([`Negotiation::starts_tls`]), and goes on over the encrypted stream after
/// [`Negotiation::protect`]. Nothing but the greeting is taken from the unencrypted stream.
pub struct Negotiation {
    wish: Wish,
    /// Whether to start TLS first.
    tls: bool,
    step: Step,
    /// Bytes of an incomplete message.
    gathered: Vec<u8>,
    /// Number of replies to the current option.
    replies: usize,
    export: Option<ExportInfo>,
    sizes: Option<BlockSizes>,
    structured: bool,
    contexts: Vec<(u32, String)>,
}

impl Negotiation {
    /// Starts a handshake, which waits for the server's greeting.
    pub fn new(wish: Wish) -> Negotiation {
        Negotiation {
            wish,
            tls: false,
            step: Step::Greeting,
            gathered: Vec::new(),
            replies: 0,
            export: None,
            sizes: None,
            structured: false,
            contexts: Vec::new(),
        }
    }

    /// Starts a handshake that starts TLS first. A server that refuses it is not used.
    pub fn over_tls(wish: Wish) -> Negotiation {
        Negotiation { tls: true, ..Negotiation::new(wish) }
    }

    /// Consumes received bytes from the front of `input`, and appends the bytes to send to `out`.
    /// Some: transmission begins, and the rest of `input` belongs to it. None: more bytes are
    /// needed, or TLS is to be started.
    ///
    /// # Errors
    /// The server violates the protocol, is not a fixed newstyle server, or refuses the export.
    pub fn take(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Option<Agreed>, Fault> {
        loop {
            match self.step {
                Step::Greeting => {
                    let Some(bytes) = self.message(input, GREETING_BYTES) else { return Ok(None) };
                    self.greeted(&bytes, out)?;
                }
                Step::Option(option) => {
                    let Some((kind, data)) = self.reply(input, option)? else { return Ok(None) };
                    if let Some(agreed) = self.answered(option, kind, &data, out)? {
                        return Ok(Some(agreed));
                    }
                }
                Step::Tls if input.is_empty() => return Ok(None),
                Step::Tls => {
                    return Err(Fault::Nonsense("unencrypted bytes after the start of TLS"));
                }
                Step::Over => return Err(Fault::Nonsense("the handshake is over")),
            }
        }
    }

    /// Whether TLS is to be started now: both sides have agreed to it.
    pub fn starts_tls(&self) -> bool {
        self.step == Step::Tls
    }

    /// Goes on after TLS was started, and appends the bytes to send over it to `out`.
    pub fn protect(&mut self, out: &mut Vec<u8>) {
        if self.starts_tls() {
            self.request(out);
        }
    }

    /// Moves bytes until `bytes` are gathered. Returns whether they are.
    fn gather(&mut self, input: &mut &[u8], bytes: usize) -> bool {
        let missing = bytes.saturating_sub(self.gathered.len()).min(input.len());
        let (taken, rest) = input.split_at(missing);
        self.gathered.extend_from_slice(taken);
        *input = rest;
        self.gathered.len() >= bytes
    }

    fn message(&mut self, input: &mut &[u8], bytes: usize) -> Option<Vec<u8>> {
        self.gather(input, bytes).then(|| std::mem::take(&mut self.gathered))
    }

    /// Returns the kind and the data of the next reply to an option, once it is complete.
    fn reply(&mut self, input: &mut &[u8], option: u32) -> Result<Option<(u32, Vec<u8>)>, Fault> {
        if !self.gather(input, OPTION_REPLY_HEADER_BYTES) {
            return Ok(None);
        }
        let header = self.gathered.first_chunk().and_then(OptionReplyHeader::parse);
        let header = header.ok_or(Fault::Nonsense("a reply to an option has no magic number"))?;
        if header.option != option {
            return Err(Fault::Nonsense("a reply to an option that was not sent"));
        }
        let length = header.length as usize;
        if length > OPTION_BYTES_MAX {
            return Err(Fault::Nonsense("a reply to an option is too long"));
        }
        let Some(message) = self.message(input, OPTION_REPLY_HEADER_BYTES + length) else {
            return Ok(None);
        };
        self.replies += 1;
        if self.replies > REPLIES_MAX {
            return Err(Fault::Nonsense("an option has too many replies"));
        }
        Ok(Some((header.kind, message[OPTION_REPLY_HEADER_BYTES..].to_vec())))
    }

    fn greeted(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let greeting = bytes.first_chunk().and_then(Greeting::parse);
        let greeting =
            greeting.ok_or(Fault::Nonsense("the greeting is not that of a newstyle server"))?;
        if greeting.flags & NBD_FLAG_FIXED_NEWSTYLE == 0 {
            return Err(Fault::Nonsense("the server does not speak fixed newstyle"));
        }
        let mut flags = NBD_FLAG_C_FIXED_NEWSTYLE;
        if greeting.flags & NBD_FLAG_NO_ZEROES != 0 {
            flags |= NBD_FLAG_C_NO_ZEROES;
        }
        out.extend_from_slice(&flags.to_be_bytes());
        if self.tls {
            self.send(NBD_OPT_STARTTLS, &[], out);
        } else {
            self.request(out);
        }
        Ok(())
    }

    /// Sends the first option that concerns the export.
    fn request(&mut self, out: &mut Vec<u8>) {
        if self.wish.structured || !self.wish.contexts.is_empty() {
            self.send(NBD_OPT_STRUCTURED_REPLY, &[], out);
        } else {
            self.go(out);
        }
    }

    fn send(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) {
        put_option(out, option, data);
        (self.step, self.replies) = (Step::Option(option), 0);
    }

    fn select(&mut self, out: &mut Vec<u8>) {
        let queries: Vec<&str> = self.wish.contexts.iter().map(String::as_str).collect();
        let data = MetaRequest::encode(&self.wish.export, &queries);
        self.send(NBD_OPT_SET_META_CONTEXT, &data, out);
    }

    fn go(&mut self, out: &mut Vec<u8>) {
        let wanted: &[u16] = if self.wish.sizes { &[NBD_INFO_BLOCK_SIZE] } else { &[] };
        let data = InfoRequest::encode(&self.wish.export, wanted);
        self.send(NBD_OPT_GO, &data, out);
    }

    /// Handles a reply to the option that was sent last.
    fn answered(
        &mut self,
        option: u32,
        kind: u32,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Agreed>, Fault> {
        let is_error = kind >> 31 == 1;
        match (option, kind) {
            (NBD_OPT_STARTTLS, NBD_REP_ACK) => self.step = Step::Tls,
            (NBD_OPT_STARTTLS, _) if is_error => return Err(Fault::NoTls),
            (NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK) => {
                self.structured = true;
                if self.wish.contexts.is_empty() { self.go(out) } else { self.select(out) }
            }
            (NBD_OPT_SET_META_CONTEXT, NBD_REP_META_CONTEXT) => self.selected(data)?,
            (NBD_OPT_SET_META_CONTEXT, NBD_REP_ACK) => self.go(out),
            // Both are optional for a server.
            (NBD_OPT_STRUCTURED_REPLY | NBD_OPT_SET_META_CONTEXT, _) if is_error => {
                self.contexts.clear();
                self.go(out);
            }
            (NBD_OPT_GO, NBD_REP_INFO) => self.take_info(data)?,
            (NBD_OPT_GO, NBD_REP_ACK) => return self.agreed().map(Some),
            (NBD_OPT_GO, _) if is_error => {
                let text = String::from_utf8_lossy(data).into_owned();
                return Err(Fault::Refused { reply: kind, text });
            }
            _ => return Err(Fault::Nonsense("a reply that does not belong to the option")),
        }
        Ok(None)
    }

    fn selected(&mut self, data: &[u8]) -> Result<(), Fault> {
        let selected =
            parse_meta_context(data).ok_or(Fault::Nonsense("a context without a name"))?;
        let (id, name) = selected;
        if !self.wish.contexts.iter().any(|wanted| wanted == name) {
            return Err(Fault::Nonsense("a context that was not requested"));
        }
        if self.contexts.iter().any(|known| known.0 == id || known.1 == name) {
            return Err(Fault::Nonsense("a context that was sent before"));
        }
        self.contexts.push((id, name.to_owned()));
        Ok(())
    }

    fn take_info(&mut self, data: &[u8]) -> Result<(), Fault> {
        let Some(info) = data.first_chunk().map(|bytes| u16::from_be_bytes(*bytes)) else {
            return Err(Fault::Nonsense("information without a type"));
        };
        match info {
            NBD_INFO_EXPORT => {
                let export = ExportInfo::parse(data).filter(|info| info.bytes <= i64::MAX as u64);
                self.export = Some(export.ok_or(Fault::Nonsense("an invalid size of the export"))?);
            }
            NBD_INFO_BLOCK_SIZE => {
                let sizes = BlockSizes::parse(data).filter(make_sense);
                self.sizes =
                    Some(sizes.ok_or(Fault::Nonsense("invalid block sizes of the export"))?);
            }
            _ => {}
        }
        Ok(())
    }

    fn agreed(&mut self) -> Result<Agreed, Fault> {
        self.step = Step::Over;
        let export = self.export.ok_or(Fault::Nonsense("no information about the export"))?;
        let (sizes, structured) = (self.sizes, self.structured);
        Ok(Agreed { export, sizes, structured, contexts: std::mem::take(&mut self.contexts) })
    }
}

/// Whether requests can be cut to these sizes.
fn make_sense(sizes: &BlockSizes) -> bool {
    let BlockSizes { min, preferred, max } = *sizes;
    let powers = min.is_power_of_two() && preferred.is_power_of_two();
    let whole = max == u32::MAX || max.is_multiple_of(min.max(1));
    powers && min <= 64 << 10 && min <= preferred && min <= max && whole
}

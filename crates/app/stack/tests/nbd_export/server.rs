//! A server for one test: a thread that answers reads with a pattern, over real sockets.

use nbd::codec::*;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Conduct of a server.
#[derive(Clone, Default)]
pub(crate) struct Conduct {
    /// Size of the export, in bytes.
    pub(crate) bytes: u64,
    /// Number of reads that each connection answers; 0: no limit. The connection then ends.
    pub(crate) reads: usize,
    /// Whether it accepts connections and sends nothing.
    pub(crate) is_silent: bool,
    /// Whether it serves one connection at a time, as qemu-nbd does without `--shared`.
    pub(crate) is_single: bool,
    /// Bytes that it sends instead of the replies to options.
    pub(crate) nonsense: Vec<u8>,
}

/// Serves at a path until the test ends. Returns the number of connections, as a counter.
pub(crate) fn start(path: &Path, conduct: Conduct) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(path).expect("a fresh path");
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = connections.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, conduct) = (stream.expect("a connection"), conduct.clone());
            counter.fetch_add(1, Ordering::SeqCst);
            let is_single = conduct.is_single;
            // A client may hang up at any moment.
            let serving = std::thread::spawn(move || drop(serve(stream, &conduct)));
            if is_single {
                serving.join().expect("the client is sound");
            }
        }
    });
    connections
}

/// Returns the byte at an offset of the export.
pub(crate) fn pattern(offset: u64) -> u8 {
    (offset >> 9) as u8 ^ offset as u8
}

fn serve(mut stream: UnixStream, conduct: &Conduct) -> io::Result<()> {
    if conduct.is_silent {
        // Until the client hangs up.
        return io::copy(&mut stream, &mut io::sink()).map(|_| ());
    }
    let flags = NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES;
    stream.write_all(&Greeting { flags }.encode())?;
    stream.read_exact(&mut [0; 4])?;
    if !conduct.nonsense.is_empty() {
        return stream.write_all(&conduct.nonsense);
    }
    while !answer_option(&mut stream, conduct)? {}
    let (mut header, mut data, mut left) = ([0; REQUEST_BYTES], Vec::new(), conduct.reads);
    loop {
        stream.read_exact(&mut header)?;
        let request = RequestHeader::parse(&header).expect("the client is sound");
        if request.command == NBD_CMD_DISC {
            return Ok(());
        }
        assert_eq!(request.command, NBD_CMD_READ, "the client only reads");
        data.clear();
        data.extend_from_slice(&SimpleReply { error: 0, cookie: request.cookie }.encode());
        data.extend((0..u64::from(request.length)).map(|at| pattern(request.offset + at)));
        if left == 1 {
            // The connection ends within the reply.
            return stream.write_all(&data[..data.len() / 2]);
        }
        left = left.saturating_sub(1);
        stream.write_all(&data)?;
    }
}

/// Answers an option. Returns whether transmission begins.
fn answer_option(stream: &mut UnixStream, conduct: &Conduct) -> io::Result<bool> {
    let mut header = [0; OPTION_HEADER_BYTES];
    stream.read_exact(&mut header)?;
    let OptionHeader { option, length } = OptionHeader::parse(&header).expect("a sound client");
    stream.read_exact(&mut vec![0; length as usize])?;
    let mut out = Vec::new();
    let is_last = option == NBD_OPT_GO;
    if is_last {
        let info = ExportInfo { bytes: conduct.bytes, flags: NBD_FLAG_HAS_FLAGS };
        put_reply(&mut out, option, NBD_REP_INFO, &info_export(&info));
        put_reply(&mut out, option, NBD_REP_ACK, &[]);
    } else {
        put_reply(&mut out, option, NBD_REP_ERR_UNSUP, &[]);
    }
    stream.write_all(&out)?;
    Ok(is_last)
}

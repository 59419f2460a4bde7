//! Shared test code of this crate.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use block::{Buf, Extent, Memory, Pieces, Request, Stack};
use host::{FileVolume, OpenOptions};
use lane::Lane;
use ring::{FileBackend, Ring};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

/// Read-write and direct, the default.
pub(crate) const DEFAULT: OpenOptions =
    OpenOptions { read_only: false, buffered: false, is_shared: false };

/// Creates a ring on a new lane.
pub(crate) fn ring() -> Ring {
    Ring::new(&Lane::new()).expect("io_uring works here")
}

/// Creates an image of `bytes` zeros.
pub(crate) fn image(directory: &Path, bytes: u64) -> PathBuf {
    let path = directory.join("image");
    let file = std::fs::File::create(&path).expect("a writable directory");
    file.set_len(bytes).expect("a sparse file");
    path
}

/// Opens the volume at `path` as a stack of one layer.
pub(crate) fn stack(path: &Path, options: OpenOptions, ring: &Ring) -> (Arc<FileVolume>, Stack) {
    let volume = FileVolume::open(path, options).unwrap_or_else(|error| panic!("{error}"));
    let stack = Stack::new(ring.lane(), FileBackend::attach(&volume, ring));
    (volume, stack)
}

/// Serves one request until it ends.
pub(crate) fn run(ring: &Ring, stack: &Stack, request: Request) -> block::Result {
    stack.limits().check(&request)?;
    ring.block_on(stack.run(request)).expect("the loop runs")
}

/// Returns a buffer full of one byte.
pub(crate) fn filled(sectors: u32, byte: u8) -> Buf {
    let buf = Buf::new(sectors, 512);
    buf.write(&vec![byte; sectors as usize * 512]);
    buf
}

/// Returns a buffer in `count` pieces of `sectors` sectors each, in descending order of address.
pub(crate) fn in_pieces(count: u32, sectors: u32) -> Buf {
    let length = sectors as usize * 512;
    // Twice the room: with gaps, so that pieces are not merged.
    let memory = Arc::new(Memory::heap(count as usize * length * 2));
    let mut pieces = Pieces::new(memory, 512, count as usize);
    for index in (0..count as usize).rev() {
        pieces.push(index * length * 2, sectors);
    }
    Buf::of(Arc::new(pieces))
}

pub(crate) fn read(first: u64, into: &Buf) -> Request {
    Request::Read { at: Extent::new(first, into.sectors()), into: into.clone() }
}

pub(crate) fn write(first: u64, from: &Buf, fua: bool) -> Request {
    Request::Write { at: Extent::new(first, from.sectors()), from: from.clone(), fua }
}

pub(crate) fn zero(first: u64, count: u32, may_unmap: bool) -> Request {
    Request::Zero { at: Extent::new(first, count), fua: true, may_unmap }
}

/// Runs a program. None, with a printed reason, if it is not installed.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(name).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: {name} cannot be run: {error}");
            None
        }
    }
}

/// Returns all output of a program.
pub(crate) fn output_text(output: &Output) -> String {
    let both = [output.stdout.clone(), output.stderr.clone()].concat();
    String::from_utf8_lossy(&both).into_owned()
}

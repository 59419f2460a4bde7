//! Reads any bytes with any reader; also called by the fuzzer.

use trace::{Access, BYTES_MAX, DEVICES_MAX, Direction, END_MAX, Format, Notes, Reader};

/// The result: all accesses, the names of the devices, and the notes or the error.
pub(crate) type Read = (Vec<Access>, Vec<String>, Result<Notes, String>);

/// Reads bytes that arrive in these pieces.
pub(crate) fn read<'a>(format: Format, pieces: impl Iterator<Item = &'a [u8]>) -> Read {
    let (mut reader, mut accesses) = (Reader::new(format), Vec::new());
    let feed = || {
        for piece in pieces {
            reader.feed(piece, &mut accesses)?;
        }
        reader.finish(&mut accesses)
    };
    let ended = feed().map_err(|malformed| malformed.to_string());
    (accesses, reader.devices().names().to_vec(), ended)
}

/// Checks for any bytes that each access is valid, that an error has a position, and that the split
/// into pieces makes no difference.
pub(crate) fn all(format: Format, bytes: &[u8], piece: usize) {
    let whole = read(format, core::iter::once(bytes));
    let (accesses, names, ended) = &whole;
    assert!(names.len() <= DEVICES_MAX);
    for access in accesses {
        assert!((access.device as usize) < names.len());
        assert!(access.first_byte.checked_add(access.bytes).is_some_and(|end| end <= END_MAX));
        assert!(access.bytes <= BYTES_MAX || access.direction == Direction::Other);
    }
    if let Err(message) = ended {
        let has_place = ["line ", "byte ", "block "].iter().any(|place| message.starts_with(place));
        let is_of_whole = message.starts_with("the file ") || message.starts_with("the recording ");
        assert!(has_place || is_of_whole, "{message}");
        assert!(!message.contains(char::is_control) && message.len() < 1000, "{message}");
    }
    let in_pieces = read(format, bytes.chunks(piece.max(1)));
    assert_eq!(in_pieces, whole);
    if let Err(malformed) = Format::detect("x", bytes, true) {
        let message = malformed.to_string();
        assert!(!message.is_empty() && !message.contains(char::is_control), "{message}");
    }
}

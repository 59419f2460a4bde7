//! Signatures on sparse images.

use super::*;
use std::convert::Infallible;

/// Large enough for all marks, and not a multiple of any large unit.
const BYTES: u64 = (300 << 30) + 7 * 512;

/// Bytes at their offsets.
type Marks = Vec<(u64, &'static [u8])>;

/// Returns all ways in which a signature may occur in contents of this size: marks with their
/// offsets.
fn ways(signature: &Signature, size: u64) -> Vec<Marks> {
    let mut ways = Vec::new();
    for marks in signature.any {
        let choices = marks.iter().map(|mark| mark.places(size).len()).max().unwrap_or(0);
        // Of rings with many slots, only some.
        for choice in (0..choices).step_by(if choices > 64 { 41 } else { 1 }) {
            let chosen = marks.iter().map(|mark| {
                let places = mark.places(size);
                places[choice.min(places.len() - 1)]
            });
            ways.push(chosen.collect());
        }
    }
    ways
}

fn page_of(marks: &Marks, size: u64, first: u64) -> Vec<u8> {
    let mut page = vec![0; 4096.min(size.saturating_sub(first) as usize)];
    for (offset, bytes) in marks {
        for (byte, at) in bytes.iter().zip(*offset..) {
            if (first..first + page.len() as u64).contains(&at) {
                page[(at - first) as usize] = *byte;
            }
        }
    }
    page
}

fn find_on(marks: &Marks, size: u64) -> Vec<Found> {
    let read = |first| Ok::<_, Infallible>(page_of(marks, size, first));
    let Ok(found) = find(size, |_| true, read);
    found
}

#[test]
fn every_signature_is_found_in_each_of_its_places() {
    let mut count = 0;
    for signature in signatures() {
        for size in [BYTES, 1 << 30] {
            for marks in ways(signature, size) {
                let found = find_on(&marks, size);
                let is_it = |found: &Found| {
                    std::ptr::eq(found.signature, signature) && found.offset == marks[0].0
                };
                assert!(found.iter().any(is_it), "{signature:?} {marks:x?}: {found:?}");
                count += 1;
            }
        }
    }
    assert!(count > 500, "{count}");
    assert!(find_on(&Vec::new(), BYTES).is_empty(), "zeros are nothing");
}

#[test]
fn no_signature_is_taken_for_a_stronger_one() {
    for (number, signature) in signatures().iter().enumerate() {
        for marks in ways(signature, BYTES) {
            let found = find_on(&marks, BYTES);
            let first = found.first().expect("it is found").signature;
            let stronger = signatures()[..number].iter().find(|it| std::ptr::eq(*it, first));
            assert!(stronger.is_none(), "{signature:?} is taken for {stronger:?}");
        }
    }
}

#[test]
fn short_and_odd_sizes_are_examined_as_far_as_they_go() {
    for size in [0, 1, 511, 512, 4095, 4097, 65535] {
        assert!(find_on(&Vec::new(), size).is_empty());
    }
    let found = find_on(&vec![(510, b"\x55\xaa")], 512);
    assert_eq!(found[0].signature.names[0], "dos");
    assert!(find_on(&vec![(510, b"\x55\xaa")], 511).is_empty(), "cut off");
}

#[test]
fn images_are_known_by_their_first_bytes() {
    assert_eq!(detect(b""), None);
    assert_eq!(detect(b"QFI"), None);
    assert_eq!(detect(&[0; 512]), None);
    assert_eq!(detect(b"QFI\xfb"), Some(ImageFormat::Qcow2));
    assert_eq!(detect(b"QFI\xfb\0\0\0\x01"), Some(ImageFormat::Qcow1));
    assert_eq!(detect(b"QFI\xfb\0\0\0\x03"), Some(ImageFormat::Qcow2));
    let luks2 = detect(b"LUKS\xba\xbe\x00\x02").expect("a LUKS header");
    assert_eq!(luks2, ImageFormat::Luks2);
    assert!(luks2.is_container());
    assert_eq!(detect(b"LUKS\xba\xbe\x00\x01"), Some(ImageFormat::Luks1));
}

#[test]
fn gfs2_for_one_host_is_no_file_system_of_several() {
    let mark: &[u8] = &[1, 0x16, 0x19, 0x70, 0, 0, 0, 1];
    let kind = |protocol| find_on(&vec![(65536, mark), (65632, protocol)], BYTES)[0].signature.kind;
    assert_eq!(kind(b"lock_dlm"), Kind::Cluster);
    assert_eq!(kind(b"lock_nolock"), Kind::FileSystem);
}

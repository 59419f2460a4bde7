//! Block status: converts the known state of a stack's contents to the reply for a client.

use crate::codec::*;
use block::{Extent, Limits, Padding, SECTOR, Stretch};

/// Number of `base:allocation` in replies.
pub(crate) const ALLOCATION_ID: u32 = 1;
/// Maximum number of descriptors in a reply. A client can request more, from the end of the reply
/// on.
const DESCRIPTORS_MAX: usize = 4096;
/// Maximum length of an extent, in sectors: fits in 32 bits and is a multiple of all block sizes.
const SECTORS_MAX: u64 = ((1 << 32) - (64 << 10)) / SECTOR;

/// Maximum bytes of the descriptors of a reply, before it has a buffer.
pub(crate) fn reply_bytes_max(at: Extent, one: bool) -> usize {
    let most = if one { 1 } else { DESCRIPTORS_MAX.min(at.count as usize) };
    most * DESCRIPTOR_BYTES
}

/// Returns the descriptors for `at` without the padding: at least one, none of them empty,
/// neighbours different. The last one may reach beyond `at` unless only `one` is requested.
pub(crate) fn describe(
    stretches: &[Stretch],
    at: Extent,
    padding: Padding,
    one: bool,
    limits: &Limits,
) -> Vec<Descriptor> {
    let mut list = describe_blocks(stretches, at, one, limits);
    // Each is at least a block, and the padding is less than that.
    list[0].length -= padding.head;
    if one {
        let wanted = u64::from(at.count) * SECTOR - padding.bytes() as u64;
        list[0].length = u64::from(list[0].length).min(wanted) as u32;
    }
    list
}

fn describe_blocks(
    stretches: &[Stretch],
    at: Extent,
    one: bool,
    limits: &Limits,
) -> Vec<Descriptor> {
    let unit = u64::from(limits.block_logical_bytes) / SECTOR;
    let wanted = u64::from(at.count);
    // Nothing exists beyond the end, whatever the stack returns.
    let most = if one { wanted } else { (limits.sectors - at.first) / unit * unit };
    let mut list = Vec::with_capacity(if one { 1 } else { 16 });
    let mut described = 0;
    for stretch in in_units(stretches, unit) {
        let sectors = stretch.sectors.min(most - described).min(SECTORS_MAX);
        if sectors == 0 || list.len() == reply_bytes_max(at, one) / DESCRIPTOR_BYTES {
            break;
        }
        list.push(descriptor(stretch.resized(sectors)));
        described += sectors;
        if described >= wanted || sectors < stretch.sectors {
            break;
        }
    }
    if list.is_empty() {
        list.push(descriptor(Stretch::data(unit)));
    }
    list
}

/// Returns the same stretches, cut at block borders. A block with several states gets only the
/// properties that hold for all of it.
fn in_units(stretches: &[Stretch], unit: u64) -> Vec<Stretch> {
    let mut list = Vec::with_capacity(stretches.len());
    let mut block = Stretch::data(0u32);
    for stretch in stretches {
        let mut rest = stretch.sectors;
        if block.sectors > 0 {
            let more = rest.min(unit - block.sectors);
            block.sectors += more;
            block.hole &= stretch.hole;
            block.zero &= stretch.zero;
            rest -= more;
            if block.sectors < unit {
                continue;
            }
            Stretch::push(&mut list, block);
        }
        Stretch::push(&mut list, stretch.resized(rest - rest % unit));
        block = stretch.resized(rest % unit);
    }
    list
}

fn descriptor(stretch: Stretch) -> Descriptor {
    let hole = if stretch.hole { NBD_STATE_HOLE } else { 0 };
    let zero = if stretch.zero { NBD_STATE_ZERO } else { 0 };
    Descriptor { length: (stretch.sectors * SECTOR) as u32, flags: hole | zero }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(sectors: u64, unit: u32) -> Limits {
        Limits { block_logical_bytes: unit, ..Limits::plain(sectors, 512) }
    }

    const HOLE: u32 = NBD_STATE_HOLE | NBD_STATE_ZERO;

    fn hole(sectors: u64) -> Stretch {
        Stretch { sectors, hole: true, zero: true }
    }

    fn describe_whole(
        stretches: &[Stretch],
        at: Extent,
        one: bool,
        limits: &Limits,
    ) -> Vec<(u32, u32)> {
        let list = describe(stretches, at, Padding::NONE, one, limits);
        list.iter().map(|next| (next.length, next.flags)).collect()
    }

    #[test]
    fn neighbours_that_are_alike_become_one() {
        let stretches = [hole(8), hole(8), Stretch::data(8u32), Stretch::data(4u32)];
        let at = Extent::new(0, 64);
        let list = describe_whole(&stretches, at, false, &limits(64, 512));
        assert_eq!(list, [(8192, HOLE), (6144, 0)]);
    }

    #[test]
    fn one_descriptor_ends_with_the_request_and_the_last_of_several_may_not() {
        let stretches = [Stretch::data(8u32), hole(100)];
        let at = Extent::new(0, 16);
        let limits = limits(64, 512);
        assert_eq!(describe_whole(&stretches, at, false, &limits), [(4096, 0), (56 * 512, HOLE)]);
        assert_eq!(describe_whole(&stretches, at, true, &limits), [(4096, 0)]);
        let at = Extent::new(0, 4);
        assert_eq!(describe_whole(&stretches, at, true, &limits), [(2048, 0)]);
        assert_eq!(
            describe_whole(&stretches, at, false, &limits),
            [(4096, 0)],
            "all that is asked for"
        );
    }

    #[test]
    fn descriptors_are_whole_blocks() {
        let stretches = [hole(12), Stretch::data(1u32), hole(11), hole(3)];
        let list = describe_whole(&stretches, Extent::new(0, 64), false, &limits(64, 4096));
        assert_eq!(list, [(4096, HOLE), (4096, 0), (4096, HOLE)]);
        let short = describe_whole(&[hole(3)], Extent::new(0, 64), false, &limits(64, 4096));
        assert_eq!(short, [(4096, 0)], "what is not known of a whole block is data");
    }

    #[test]
    fn parts_of_blocks_are_reported_without_their_padding() {
        let stretches = [Stretch::data(8u32), hole(100)];
        let limits = limits(64, 4096);
        let padding = Padding { head: 1000, tail: 96 };
        let describe_at = |at, one| {
            let list = describe(&stretches, at, padding, one, &limits);
            list.iter().map(|next| (next.length, next.flags)).collect::<Vec<_>>()
        };
        assert_eq!(describe_at(Extent::new(0, 16), false), [(3096, 0), (56 * 512, HOLE)]);
        assert_eq!(describe_at(Extent::new(0, 16), true), [(3096, 0)]);
        assert_eq!(describe_at(Extent::new(0, 8), true), [(3000, 0)], "no more than was asked for");
        assert_eq!(describe_at(Extent::new(0, 8), false), [(3096, 0)]);
    }

    #[test]
    fn a_reply_is_never_empty_and_never_long() {
        let at = Extent::new(8, 1 << 20);
        let limits = limits(1 << 40, 512);
        assert_eq!(describe_whole(&[], at, false, &limits), [(512, 0)]);
        let many: Vec<_> =
            (0..10_000).flat_map(|_| [Stretch::data(1u32), hole(1), hole(0)]).collect();
        assert_eq!(describe_whole(&many, at, false, &limits).len(), DESCRIPTORS_MAX);
        assert_eq!(describe_whole(&many, at, true, &limits).len(), 1);
        let huge = describe_whole(&[hole(1 << 39), hole(5)], at, false, &limits);
        assert_eq!(huge, [(0xffff_0000, HOLE)]);
        let all = Extent::new(0, u32::MAX / 512);
        let list = describe_whole(&[hole(1 << 39)], all, true, &limits);
        assert_eq!(list, [(0xffff_0000, HOLE)], "shorter than asked for is allowed");
    }
}

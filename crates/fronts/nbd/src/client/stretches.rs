//! Block status in bytes, as sectors.

use crate::codec::*;
use block::{SECTOR, Stretch};

/// Converts extents of `base:allocation`, which begin at a sector, into stretches of at most
/// `sectors` sectors. A sector that lies in several extents is data.
pub(super) fn stretches(extents: &[Descriptor], sectors: u32) -> Vec<Stretch> {
    let (mut list, mut from, mut start) = (Vec::new(), 0, 0);
    for extent in extents {
        let end = start + u64::from(extent.length);
        // The whole sectors of the extent.
        let whole = start.div_ceil(SECTOR).min(u64::from(sectors));
        let rest = (end / SECTOR).min(u64::from(sectors));
        if rest > whole {
            Stretch::push(&mut list, Stretch::data(whole - from));
            Stretch::push(
                &mut list,
                Stretch {
                    sectors: rest - whole,
                    hole: extent.flags & NBD_STATE_HOLE != 0,
                    zero: extent.flags & NBD_STATE_ZERO != 0,
                },
            );
            from = rest;
        }
        start = end;
    }
    if list.is_empty() {
        // Less than a sector is known.
        list.push(Stretch::data(sectors));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: u32 = NBD_STATE_HOLE | NBD_STATE_ZERO;

    fn stretch(sectors: u64, flags: u32) -> Stretch {
        Stretch { sectors, hole: flags & NBD_STATE_HOLE != 0, zero: flags & NBD_STATE_ZERO != 0 }
    }

    fn of(extents: &[(u32, u32)], sectors: u32) -> Vec<Stretch> {
        let extents: Vec<Descriptor> =
            extents.iter().map(|&(length, flags)| Descriptor { length, flags }).collect();
        stretches(&extents, sectors)
    }

    #[test]
    fn whole_sectors_keep_their_state_and_parts_are_data() {
        assert_eq!(of(&[(4096, ZERO), (4096, 0)], 16), [stretch(8, ZERO), stretch(8, 0)]);
        assert_eq!(of(&[(4096, ZERO), (1 << 20, 0)], 16), [stretch(8, ZERO), stretch(8, 0)]);
        assert_eq!(
            of(&[(1000, ZERO), (1048, ZERO)], 4),
            [stretch(1, ZERO), stretch(1, 0), stretch(2, ZERO)]
        );
        assert_eq!(of(&[(100, ZERO)], 4), [stretch(4, 0)], "too little is known");
        assert_eq!(of(&[(0, ZERO), (512, NBD_STATE_ZERO)], 4), [stretch(1, NBD_STATE_ZERO)]);
        assert_eq!(of(&[], 4), [stretch(4, 0)]);
    }

    #[test]
    fn no_sector_outside_the_request_is_described() {
        let all = [(u32::MAX, ZERO), (u32::MAX, 0), (u32::MAX, ZERO)];
        assert_eq!(of(&all, 1 << 21), [stretch(1 << 21, ZERO)]);
    }
}

//! Stripes: the address of every sector.

use crate::common::{GRAIN, drive, member, run, world};
use block::{Buf, Extent, Request, Stack};
use lane::Random;
use pool::Stripe;

#[test]
fn a_stripe_agrees_with_one_array() {
    let (mut world, lane) = world();
    for members in [2, 3] {
        let drives = (0..members).map(|_| member(&lane, 100, &drive(10))).collect();
        let stack = Stack::new(&lane, Stripe::attach(drives, 4096).expect("sound members"));
        let sectors = stack.limits().sectors;
        assert_eq!(sectors, 800 * members);
        run(&mut world, &lane, async move {
            let mut random = Random::new(members);
            let mut array = vec![0u8; sectors as usize];
            for byte in 1..200u8 {
                let first = random.below(sectors);
                let at = Extent::new(first, 1 + random.below((sectors - first).min(300)) as u32);
                let range = first as usize..at.end() as usize;
                let zero = byte % 4 == 0;
                array[range].fill(if zero { 0 } else { byte });
                let from = Buf::new(at.count, GRAIN);
                from.write(&vec![byte; from.bytes()]);
                let request = match byte % 8 {
                    0 => Request::Discard { at },
                    4 => Request::Zero { at, fua: false, may_unmap: false },
                    _ => Request::Write { at, from, fua: false },
                };
                stack.run(request).await.expect("sound members");
            }
            let into = Buf::new(sectors as u32, GRAIN);
            let at = Extent::new(0, sectors as u32);
            stack.run(Request::Read { at, into: into.clone() }).await.expect("sound members");
            let seen = into.to_vec();
            for (sector, bytes) in seen.chunks(GRAIN as usize).enumerate() {
                assert!(bytes.iter().all(|byte| *byte == array[sector]), "sector {sector}");
            }
        });
    }
}

#[test]
fn members_that_do_not_do_are_refused() {
    let (_, lane) = world();
    let one = || member(&lane, 100, &drive(10));
    assert!(Stripe::attach(vec![one()], 4096).is_err());
    assert!(Stripe::attach(vec![one(), one()], 5000).is_err());
    assert!(Stripe::attach(vec![one(), one()], 1 << 20).is_err(), "smaller than a chunk");
}

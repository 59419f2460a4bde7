//! Work from other threads allocates no memory per item.

use lane::{Inbox, Lane};
use std::sync::Arc;

#[test]
fn an_inbox_takes_its_memory_at_the_start() {
    let (lane, inbox) = (Lane::new(), Arc::new(Inbox::new(16)));
    let taking = inbox.clone();
    let taker = async move { while taking.next().await.is_some() {} };
    lane.spawn(taker).expect("a slot is free");
    while lane.step() {}
    let mut before = 0;
    for round in 0..200 {
        if round == 100 {
            before = allocations::of_this_thread();
        }
        for item in 0..16u64 {
            assert_eq!(inbox.post(item), Ok(()));
        }
        assert!(inbox.post(0).is_err(), "it is full");
        while lane.step() {}
    }
    assert_eq!(allocations::of_this_thread() - before, 0);
    inbox.close();
    while lane.step() {}
    assert_eq!(lane.tasks(), 0);
}

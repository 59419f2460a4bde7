//! The handling of write-throughs, and of changes that wait for them.

use crate::scene::*;

/// A write of more blocks than are absorbed together, from this block on.
fn large(first: u64) -> Request {
    write_blocks(first, 33)
}

fn is_large(request: &Request) -> bool {
    is_write(request) && request.extent().is_some_and(|at| at.count == 33 * 8)
}

fn is_fifth(request: &Request) -> bool {
    is_write(request) && request.extent().is_some_and(|at| at.first == 5 * 8)
}

fn is_flush(request: &Request) -> bool {
    matches!(request, Request::Flush)
}

/// Makes a volume with a dirty block, on which a flush may fail.
fn with_a_dirty_block() -> Scene {
    let mut scene = begun(settings());
    scene.fill(1);
    scene
}

/// Returns whether a flush fails immediately when its flush of the backing fails, although the next
/// one would succeed.
fn a_failed_flush_is_final(scene: &mut Scene) -> bool {
    scene.state.fails.set(Some(is_flush));
    let flush = scene.begin(Request::Flush);
    scene.pass_ns(20 * MS);
    scene.state.fails.set(None);
    scene.pass_ns(50 * MS);
    let answer = flush.take().expect("it is answered within `retry_time`");
    assert_eq!(answer.is_err(), scene.shared.has_failed());
    answer.is_err()
}

#[test]
fn a_flush_that_fails_is_tried_again_only_if_nothing_has_passed() {
    assert!(!a_failed_flush_is_final(&mut with_a_dirty_block()));
    let mut passed = with_a_dirty_block();
    assert_eq!(passed.ask(large(64)), Ok(()));
    assert!(a_failed_flush_is_final(&mut passed), "it cannot be written again");
    let mut durable = with_a_dirty_block();
    assert_eq!(durable.ask(large(64)), Ok(()));
    assert_eq!(durable.ask(Request::Flush), Ok(()));
    durable.fill(1);
    assert!(!a_failed_flush_is_final(&mut durable), "it need not be");
    let mut through = with_a_dirty_block();
    assert_eq!(through.ask(write(100, true)), Ok(()));
    assert!(!a_failed_flush_is_final(&mut through), "it was durable when it was answered");
}

#[test]
fn what_passes_while_flushes_come_and_go_is_lost_with_a_flush_that_fails() {
    // In flight during the failure: the flush may have lost it.
    let mut scene = with_a_dirty_block();
    scene.state.hangs.set(Some(is_large));
    scene.begin(large(64));
    scene.pass_ns(MS);
    assert!(a_failed_flush_is_final(&mut scene));
    // The same, although there was a flush in between that had nothing to do.
    let mut scene = begun(settings());
    scene.state.hangs.set(Some(is_large));
    scene.begin(large(64));
    scene.pass_ns(MS);
    let before = scene.state.flushes.get();
    assert_eq!((scene.ask(Request::Flush), scene.state.flushes.get()), (Ok(()), before));
    scene.fill(1);
    assert!(a_failed_flush_is_final(&mut scene));
    // Ended after a flush that succeeded, but began before that flush.
    let mut scene = with_a_dirty_block();
    scene.state.hangs.set(Some(is_large));
    let pass = scene.begin(large(64));
    scene.pass_ns(MS);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    scene.state.hangs.set(None);
    scene.pass_ns(10 * MS);
    assert_eq!(pass.take(), Some(Ok(())));
    scene.fill(1);
    assert!(a_failed_flush_is_final(&mut scene));
}

#[test]
fn what_passes_while_one_flush_is_good_and_the_next_one_fails_is_not_answered_as_if_it_were_there()
{
    let mut scene = with_a_dirty_block();
    scene.state.hangs.set(Some(is_large));
    let pass = scene.begin(large(64));
    scene.pass_ns(MS);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    scene.fill(1);
    let final_already = a_failed_flush_is_final(&mut scene);
    // It was in flight during the failed flush, which may have lost it.
    scene.state.hangs.set(None);
    scene.pass_ns(10 * MS);
    let answer = pass.take().expect("it is answered");
    let flush = scene.ask(Request::Flush);
    assert!(final_already || answer.is_err() || flush.is_err(), "{answer:?}, then {flush:?}");
    // Sent again, it is durable like any other.
    scene.shared.clear_error();
    assert_eq!(scene.ask(large(64)), Ok(()));
    assert_eq!(scene.ask(Request::Flush), Ok(()));
}

#[test]
fn a_pass_asks_for_no_flush_and_with_fua_for_one_where_the_backing_has_no_fua() {
    let mut scene = with_a_dirty_block();
    let flushes = |scene: &Scene| scene.state.flushes.get();
    let before = flushes(&scene);
    assert_eq!(scene.ask(large(64)), Ok(()));
    assert_eq!(flushes(&scene), before);
    assert_eq!(scene.ask(write(100, true)), Ok(()));
    let native = scene.cache.limits().fua == block::Fua::Native;
    assert_eq!(flushes(&scene), before + u32::from(!native));
}

#[test]
fn who_was_refused_while_he_stood_in_the_line_holds_nobody_up() {
    let mut scene = with_a_dirty_block();
    scene.state.hangs.set(Some(is_fifth));
    let pass = scene.begin(write(5, true));
    scene.pass_ns(MS);
    let waits = scene.begin(write(5, true));
    scene.pass_ns(MS);
    scene.state.fails.set(Some(is_flush));
    let flush = scene.begin(Request::Flush);
    scene.pass_ns(500 * MS);
    assert!(scene.shared.has_failed() && flush.take().is_some_and(|answer| answer.is_err()));
    assert!(waits.take().is_some_and(|answer| answer.is_err()) && pass.borrow().is_none());
    scene.state.hangs.set(None);
    scene.state.fails.set(None);
    scene.pass_ns(10 * MS);
    scene.shared.clear_error();
    assert_eq!(scene.ask(write(5, false)), Ok(()));
    let flush = scene.begin(Request::Flush);
    scene.pass_ns(500 * MS);
    assert_eq!((flush.take(), scene.shared.dirty_blocks()), (Some(Ok(())), 0));
}

#[test]
fn a_discard_reaches_what_is_on_the_backing() {
    let mut scene = with_a_dirty_block();
    let at = Extent::new(64 * 8, 8);
    let from = Buf::new(8, GRAIN);
    from.write(&[0xaa; 8 * GRAIN as usize]);
    assert_eq!(scene.ask(Request::Write { at, from, fua: true }), Ok(()));
    assert_eq!(scene.cache.limits().discard, block::Discard::Zeroes);
    assert_eq!(scene.ask(Request::Discard { at }), Ok(()));
    let into = Buf::new(8, GRAIN);
    assert_eq!(scene.ask(Request::Read { at, into: into.clone() }), Ok(()));
    assert_eq!(into.to_vec(), [0; 8 * GRAIN as usize]);
}

#[test]
fn what_a_pass_has_held_back_is_written_out_when_it_fails() {
    let mut scene = with_a_dirty_block();
    assert_eq!(scene.ask(write(5, false)), Ok(()));
    scene.state.hangs.set(Some(is_large));
    // Over the dirty block, which it would replace.
    let pass = scene.begin(large(0));
    scene.pass_ns(MS);
    let flush = scene.begin(Request::Flush);
    scene.pass_ns(10 * MS);
    assert!(flush.borrow().is_none() && pass.borrow().is_none());
    scene.state.fails.set(Some(is_large));
    scene.state.hangs.set(None);
    scene.pass_ns(50 * MS);
    assert!(pass.take().is_some_and(|answer| answer.is_err()));
    assert_eq!((flush.take(), scene.shared.dirty_blocks()), (Some(Ok(())), 0));
}

#[test]
fn a_pass_that_fails_owes_nothing_to_a_block_of_which_nobody_waits() {
    let mut scene = with_a_dirty_block();
    assert_eq!(scene.ask(write(5, false)), Ok(()));
    // They are of the open epoch; then none is held except as a copy.
    for dirty in [2, 0] {
        assert_eq!(scene.shared.dirty_blocks(), dirty);
        scene.state.fails.set(Some(is_large));
        assert!(scene.ask(large(0)).is_err());
        scene.state.fails.set(None);
        let next = scene.begin(large(0));
        scene.pass_ns(10 * MS);
        assert_eq!(next.take(), Some(Ok(())), "none goes first");
    }
}

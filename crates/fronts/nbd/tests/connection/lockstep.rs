//! Reports of a client that waits for each answer: only for such a client the loop may poll.

use crate::client::{Client, request};
use crate::scene::Scene;
use lane::Lane;
use nbd::codec::*;

/// Waits until all tasks have finished what they can, and returns whether the client is in
/// lockstep.
async fn is_lockstep(lane: &Lane) -> bool {
    lane.sleep_until(lane.now() + 1_000_000).await;
    lane.lockstep_since_ns().is_some()
}

#[test]
fn a_client_that_waits_for_each_answer_is_in_lockstep_however_long_that_takes() {
    // At once, and by a task; writes whole, and with a payload that arrives later.
    for at_once in [4, 0] {
        let mut scene = Scene::timed();
        scene.device.at_once = at_once;
        let lane = scene.lane.clone();
        scene.play(async move |client: Client| {
            client.go().await;
            for _ in 0..3 {
                assert_eq!(client.read(4096, 4096).await.0, 0);
                assert!(is_lockstep(&lane).await, "a read");
                assert_eq!(client.write(0, 4096, &[1; 4096]).await, 0);
                assert!(is_lockstep(&lane).await, "a write");
                assert_eq!(client.write_in_two(&lane, 4096, 4096).await, 0);
                assert!(is_lockstep(&lane).await, "a write in two pieces");
                assert_eq!(client.plain(NBD_CMD_FLUSH, 0, 0, 0).await, 0);
                assert!(is_lockstep(&lane).await, "a flush");
            }
            client.goodbye().await;
        });
    }
}

#[test]
fn a_client_that_sends_more_before_an_answer_is_not() {
    let mut scene = Scene::timed();
    (scene.device.at_once, scene.device.delay_ns) = (0, 20_000_000);
    let lane = scene.lane.clone();
    scene.play(async move |client: Client| {
        client.go().await;
        for apart in [false, true] {
            for cookie in 0..2 {
                client.send(&request(NBD_CMD_READ, cookie, 0, 4096).encode()).await;
                if apart {
                    lane.sleep_until(lane.now() + 1000).await;
                    assert_eq!(lane.lockstep_since_ns(), None, "it is not answered yet");
                }
            }
            for _ in 0..2 {
                assert_eq!(client.reply().await.expect("a reply").error, 0);
            }
            assert!(!is_lockstep(&lane).await, "apart: {apart}");
        }
        client.goodbye().await;
    });
}

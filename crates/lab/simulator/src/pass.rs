//! One pass: all workers receive the chunks of accesses, and each worker has some of the tasks.
//! With one thread, the thread that reads also simulates: a job of a sweep uses one processor.

use crate::error::Error;
use crate::policies::{Chunk, Task};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Maximum number of chunks that wait for a worker.
const QUEUE: usize = 4;

/// Runs these tasks over the accesses that `next` puts into chunks, until it returns that there are
/// no more. Returns the tasks, in any order.
///
/// # Errors
/// The error of `next`.
pub(crate) fn pass(
    tasks: Vec<Task>,
    threads: usize,
    mut next: impl FnMut(&mut Chunk) -> Result<bool, Error>,
) -> Result<Vec<Task>, Error> {
    if threads <= 1 {
        return pass_alone(tasks, next);
    }
    std::thread::scope(|scope| {
        let mut senders: Vec<SyncSender<Arc<Chunk>>> = Vec::new();
        let mut workers = Vec::new();
        for tasks in divide(tasks, threads) {
            let (sender, receiver) = sync_channel(QUEUE);
            senders.push(sender);
            workers.push(scope.spawn(move || work(tasks, &receiver)));
        }
        let mut numbered = 0;
        let ended = loop {
            let mut chunk = Chunk { first: numbered, ..Chunk::default() };
            match next(&mut chunk) {
                Err(error) => break Err(error),
                Ok(false) => break Ok(()),
                Ok(true) => {}
            }
            numbered += chunk.blocks.len() as u64;
            let chunk = Arc::new(chunk);
            for sender in &senders {
                // A worker ends before its sender only by a panic, which is handled below.
                let _ = sender.send(chunk.clone());
            }
        };
        drop(senders);
        let joined = workers.into_iter().map(|worker| match worker.join() {
            Ok(tasks) => tasks,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let tasks = joined.flatten().collect();
        ended.map(|()| tasks)
    })
}

/// Runs the tasks on the thread that reads the accesses.
fn pass_alone(
    mut tasks: Vec<Task>,
    mut next: impl FnMut(&mut Chunk) -> Result<bool, Error>,
) -> Result<Vec<Task>, Error> {
    let mut numbered = 0;
    loop {
        let mut chunk = Chunk { first: numbered, ..Chunk::default() };
        if !next(&mut chunk)? {
            return Ok(tasks);
        }
        numbered += chunk.blocks.len() as u64;
        tasks.iter_mut().for_each(|task| task.take(&chunk));
    }
}

fn work(mut tasks: Vec<Task>, chunks: &Receiver<Arc<Chunk>>) -> Vec<Task> {
    for chunk in chunks {
        tasks.iter_mut().for_each(|task| task.take(&chunk));
    }
    tasks
}

/// Divides the tasks into at most `threads` parts of similar weight: the heaviest first, each to
/// the lightest part.
fn divide(mut tasks: Vec<Task>, threads: usize) -> Vec<Vec<Task>> {
    let count = threads.clamp(1, tasks.len().max(1));
    let mut parts: Vec<(u32, Vec<Task>)> = (0..count).map(|_| (0, Vec::new())).collect();
    tasks.sort_by_key(|task| core::cmp::Reverse(task.weight()));
    for task in tasks {
        let lightest = parts.iter_mut().min_by_key(|(weight, _)| *weight);
        let (weight, part) = lightest.expect("there is one at least");
        *weight += task.weight();
        part.push(task);
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

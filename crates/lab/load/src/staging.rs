//! What the next write writes is made while the request before it is under way.
//!
//! A load of one request at a time would otherwise wait for its data between two requests: 200 us for a mebibyte, which
//! is a tenth of what a SATA drive takes to write it. Data of more requests at a time are made while others are under
//! way anyway.

use crate::data::{Content, Data};
use crate::source::Step;
use block::{Buf, Result, SECTOR};
use lane::Lane;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use trace::Operation;

/// Sectors made at once, in some 6 us: so much later than it came an answer may be noticed.
const PIECE_SECTORS: u32 = 64;

/// The data of a write that comes next, as far as they are made.
pub(crate) struct Staged {
    step: Step,
    generation: u64,
    content: Content,
    buffer: Buf,
    done: u32,
}

impl Staged {
    /// Data that are worth it: of a write of several pieces.
    pub(crate) fn new(data: &Data, step: Step, buffer: &Buf) -> Option<Staged> {
        let is_write = matches!(step.operation, Operation::Write { .. });
        let sectors = step.buffer_sectors();
        let is_worth_it =
            is_write && sectors > PIECE_SECTORS && u64::from(buffer.grain()) == SECTOR;
        is_worth_it.then(|| Staged {
            step,
            generation: data.generate(),
            content: data.content(),
            buffer: buffer.part(0, sectors),
            done: 0,
        })
    }

    /// Makes one piece. False: all are made.
    fn go_on(&mut self) -> bool {
        let count = (self.buffer.sectors() - self.done).min(PIECE_SECTORS);
        let first = self.step.at.first + u64::from(self.done);
        self.content.fill(first, self.generation, &self.buffer.part(self.done, count));
        self.done += count;
        self.done < self.buffer.sectors()
    }

    /// Makes what is left for the step that was drawn; returns the generation of the data.
    pub(crate) fn finish(mut self, step: &Step) -> u64 {
        assert_eq!(self.step.at, step.at, "what was drawn comes next");
        while self.done < self.buffer.sectors() {
            self.go_on();
        }
        self.generation
    }

    /// Waits for an answer, and makes the data meanwhile.
    pub(crate) async fn beside(
        &mut self,
        lane: &Lane,
        answer: impl Future<Output = Result>,
    ) -> Result {
        let mut answer = pin!(answer);
        loop {
            let looked = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
            if let Poll::Ready(result) = looked {
                return result;
            }
            // A round of the loop: the request is sent with the first, an answer is found with any.
            lane.sleep_until(lane.now() + 1).await;
            if !self.go_on() {
                return answer.await;
            }
        }
    }
}

//! Makes the data of the next write while the request before it is under way.
//!
//! A load of one request at a time would otherwise wait for its data between two requests: 200 us
//! for a mebibyte, which is a tenth of the time in which a SATA drive writes it. With a larger
//! queue depth, data is made while other requests are under way.

use crate::data::{Content, Data};
use crate::source::Step;
use block::{Buf, Result, SECTOR};
use lane::Lane;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use trace::Operation;

/// Sectors made in one piece, which takes about 6 us: an answer may be noticed this much late.
const PIECE_SECTORS: u32 = 64;

/// The data of the next write, as far as it is made.
pub(crate) struct Staged {
    step: Step,
    generation: u64,
    content: Content,
    buffer: Buf,
    done: u32,
}

impl Staged {
    /// Returns None for writes of a single piece, which are not worth it.
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

    /// Makes the remaining data of the step. Returns its generation.
    pub(crate) fn finish(mut self, step: &Step) -> u64 {
        assert_eq!(self.step.at, step.at, "what was drawn comes next");
        while self.done < self.buffer.sectors() {
            self.go_on();
        }
        self.generation
    }

    /// Makes data while waiting for an answer.
    pub(crate) async fn make_while_waiting(
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
            // One round of the loop: the first sends the request, any later one may find its
            // answer.
            lane.sleep_until(lane.now() + 1).await;
            if !self.go_on() {
                return answer.await;
            }
        }
    }
}

//! The backend `null:SIZE`: stores nothing and answers immediately. Shows the cost of the path
//! itself.

use crate::error::Result;
use crate::limits::Limits;
use crate::request::Request;
use crate::stack::Block;

/// A device that drops writes and reads as zeros.
#[derive(Clone)]
pub struct Null {
    limits: Limits,
}

impl Null {
    /// Returns a null device of `sectors` sectors of `grain` bytes.
    pub fn new(sectors: u64, grain: u32) -> Null {
        Null { limits: Limits::plain(sectors, grain) }
    }
}

impl Block for Null {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn try_now(&self, request: &Request) -> Option<Result> {
        if let Request::Read { into, .. } = request {
            into.zero();
        }
        Some(Ok(()))
    }

    async fn run(&self, request: Request) -> Result {
        self.try_now(&request).unwrap_or(Ok(()))
    }
}

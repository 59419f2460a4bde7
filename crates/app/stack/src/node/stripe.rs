//! Several devices striped, as in RAID-0.

use super::{Attached, OpenNode, Unkept};
use crate::failure::{Exit, Failure};
use block::{Limits, Size, Stack};
use host::File;
use ring::Ring;

/// The members of a stripe.
pub(crate) struct StripeNode {
    limits: Limits,
    chunk_bytes: u32,
    members: Vec<Box<dyn OpenNode>>,
}

/// Returns the stripe over these members.
///
/// # Errors
/// Usage: the members cannot be combined.
pub(crate) fn open(members: Vec<Box<dyn OpenNode>>, chunk: Size) -> Result<StripeNode, Failure> {
    let limits: Vec<_> = members.iter().map(|member| member.limits()).collect();
    let chunk_bytes = u32::try_from(chunk.0).unwrap_or(0);
    let limits = pool::stripe_limits(&limits, chunk_bytes)
        .map_err(|sentence| Failure::new(Exit::Usage, format!("the stripe: {sentence}")))?;
    Ok(StripeNode { limits, chunk_bytes, members })
}

impl OpenNode for StripeNode {
    fn children(&self) -> Vec<&dyn OpenNode> {
        self.members.iter().map(|member| &**member).collect()
    }

    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn attach(&self, ring: &Ring) -> Attached {
        let members = self.members.iter().map(|member| member.attach(ring).stack).collect();
        let stripe = pool::Stripe::attach(members, self.chunk_bytes);
        let stripe = stripe.expect("its limits were found");
        Attached { stack: Stack::new(ring.lane(), stripe), cache: None }
    }

    fn is_of_several(&self) -> bool {
        true
    }

    fn keepable(&self) -> Result<Vec<File>, Unkept> {
        Err(Unkept::Several)
    }
}

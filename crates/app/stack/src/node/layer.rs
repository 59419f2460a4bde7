//! Layers that only change how requests reach their child: one row of [`open`] each.

use super::{Attached, OpenNode};
use block::{Limits, Spec, Stack};
use lane::Lane;
use layers::{Delay, DelayShared, Faults, FaultsShared, RateLimit, RateLimitShared};
use ring::Ring;

/// Returns a lane's handle on a layer, in front of its handle on the child. It has the state that
/// lanes share.
type Attach = dyn Fn(&Lane, Stack) -> Stack + Send + Sync;

/// A layer, and its child.
struct LayerNode {
    attach: Box<Attach>,
    below: Box<dyn OpenNode>,
}

/// Opens the layer that a spec describes, in front of `below`.
///
/// # Panics
/// It is not such a layer.
pub(crate) fn open(spec: &Spec, below: Box<dyn OpenNode>) -> Box<dyn OpenNode> {
    let attach: Box<Attach> = match spec {
        Spec::Delay { delay, .. } => {
            let shared = DelayShared::new(delay);
            Box::new(move |lane, below| {
                Stack::new(lane, Delay::attach(shared.clone(), lane, below))
            })
        }
        Spec::Faults { faults, .. } => {
            let shared = FaultsShared::new(faults);
            Box::new(move |lane, below| Stack::new(lane, Faults::attach(shared.clone(), below)))
        }
        Spec::Limit { limit, .. } => {
            let shared = RateLimitShared::new(limit);
            Box::new(move |lane, below| {
                Stack::new(lane, RateLimit::attach(shared.clone(), lane, below))
            })
        }
        _ => unreachable!("it is no such layer"),
    };
    Box::new(LayerNode { attach, below })
}

impl OpenNode for LayerNode {
    fn children(&self) -> Vec<&dyn OpenNode> {
        vec![&*self.below]
    }

    fn limits(&self) -> Limits {
        self.below.limits()
    }

    fn attach(&self, ring: &Ring) -> Attached {
        let Attached { stack, cache } = self.below.attach(ring);
        Attached { stack: (self.attach)(ring.lane(), stack), cache }
    }
}

//! The geometry of caches whose contents outlast a process.

use cache::Geometry;

/// Returns a geometry of several shards, with room for many fetches and long runs.
pub(crate) fn geometry(slots: u32) -> Geometry {
    Geometry {
        slots,
        shards: 4,
        region_blocks: 64,
        extents: 4,
        fills: 128,
        run_blocks: 256,
        slice_blocks: 256,
        ..Geometry::SMALLEST
    }
}

//! A hard disk's description.

use crate::disk::DiskModel;
use crate::reader::{ModelError, Reader};
use alloc::format;

impl DiskModel {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<DiskModel, ModelError> {
        let ms = 0.0..=100.0;
        let model = DiskModel {
            user_bytes: reader.count("capacity.user_bytes", 1 << 20..=1 << 50)?,
            turns_per_minute: reader.number("disk.turns_per_minute", 1000.0..=20_000.0)?,
            seek_ms: [
                reader.number("disk.seek_track_ms", ms.clone())?,
                reader.number("disk.seek_average_ms", ms.clone())?,
                reader.number("disk.seek_full_ms", ms.clone())?,
            ],
            write_settle_ms: reader.number("disk.write_settle_ms", ms)?,
            media_rate: [
                reader.number("disk.outer_mb_s", 1.0..=1000.0)? * 1e6,
                reader.number("disk.inner_mb_s", 1.0..=1000.0)? * 1e6,
            ],
            cache_bytes: reader.count("buffer.bytes", 0..=1 << 32)?,
            link_rate: reader.number("link.mb_s", 1.0..=10_000.0)? * 1e6,
            command_us: reader.number("link.command_us", 0.0..=10_000.0)?,
            queue_gain: reader.number("disk.queue_gain", 0.0..=1.0)?,
        };
        let [track, average, full] = model.seek_ms;
        if !(track <= average && average <= full) {
            let what = format!("{track}, {average}, {full}: a longer seek must not be shorter");
            return Err(reader.wrong("disk.seek_average_ms", &what));
        }
        Ok(model)
    }
}

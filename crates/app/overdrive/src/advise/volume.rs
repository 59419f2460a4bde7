//! Advice on a served volume, by its own statistics.

use super::Shown;
use crate::volumes::Target;
use advice::load::advise_volume;
use daemon::control::words::Row;
use stack::Failure;

/// Reads the volume's statistics.
///
/// # Errors
/// The daemon does not answer.
pub(super) fn advise(name: String, target: Target) -> Result<Shown, Failure> {
    let Target { mut daemon, row } = target;
    let stats = daemon.statistics(&row.name)?;
    let (facts, premises, advice) =
        advise_volume(&stats, super::machine(), |memory_bytes| command(&row, memory_bytes));
    let source = "its live curve and its counters".to_owned();
    Ok(Shown { target: name, kind: "volume", source, facts, premises, advice, compression: None })
}

/// Returns the line that serves a volume with another size of its memory.
fn command(row: &Row, memory_bytes: u64) -> String {
    let memory = format!("--memory {}M", memory_bytes >> 20);
    let (name, backing) = (&row.name, &row.backing);
    match row.device.is_empty() {
        true => format!("overdrive serve {backing} --name {name} {memory}"),
        false => {
            let again = format!("overdrive attach {backing} --name {name} {memory}");
            format!("overdrive detach {name} && {again}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_served_again_with_other_memory() {
        let mut row: Row = serde_json::from_value(serde_json::json!({
            "name": "db", "backing": "/srv/db.img", "state": "serving", "size_bytes": 1,
            "memory_bytes": 1, "write": "back", "dirty_bytes": 0, "clients": 0, "uri": "", "pid": 1,
        }))
        .expect("a row");
        assert_eq!(command(&row, 2 << 30), "overdrive serve /srv/db.img --name db --memory 2048M");
        row.device = "/dev/overdrive/db".to_owned();
        let again = "overdrive detach db && overdrive attach /srv/db.img --name db --memory 512M";
        assert_eq!(command(&row, 512 << 20), again);
    }
}

//! Gathers a volume's statistics.

use super::volume_service::VolumeService;
use crate::control::statistics::{
    Attribute, Backing, BackingKinds, Curve, Export, FileClass, FileHints, Flash, Guard, Lately,
    Member, Model, Point, Policy, Process, Queue, Statistics,
};
use cache::{ClassFigures, CurveReport, HintsReport};
use policy::{CLASSES, POINTS, PRESENT};
use pool::{MemberState, MemberStatistics};
use stack::{Counts, ExportWaits, Kind};
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCK_BYTES: u64 = 4096;

/// Returns all statistics of a volume.
pub(crate) fn of(service: &VolumeService) -> Statistics {
    let now_ns = service.ring.lane().now();
    let (shared, row) = (service.shared(), service.row());
    let members = service.volume.pool().map(|pool| pool.statistics()).unwrap_or_default();
    let (faults, threads) = (host::faults(), &service.lane_volume.threads);
    Statistics {
        schema: Statistics::SCHEMA.to_owned(),
        volume: service.name.clone(),
        now_ns,
        served_ns: now_ns.saturating_sub(service.begun_ns),
        memory_bytes: row.memory_bytes,
        write: row.write,
        durability: shared.map(|shared| shared.settings().durability),
        state: row.state,
        clients: row.clients,
        held_changes: service.volume.valve().held(),
        busy_ns: service.lane_volume.busy.total_ns(now_ns),
        counters: shared.map(|shared| shared.counters(now_ns)).unwrap_or_default(),
        latencies: shared.map(|shared| shared.histograms()).unwrap_or_default(),
        guard: shared.map(|shared| guard(shared, now_ns)),
        policy: shared.map(|shared| policy(shared)),
        curve: shared.and_then(|shared| curve(shared, row.memory_bytes, now_ns)),
        files: shared.and_then(|shared| shared.hints(now_ns)).map(|report| files(&report)),
        backing: backing(service, now_ns),
        export: service.volume.export_waits().map(export),
        losses: service.losses(),
        link: service.link(),
        model: service.volume.model().map(|drive| model(drive)),
        members: members.iter().map(member).collect(),
        process: Process {
            page_faults_minor: faults.minor,
            page_faults_major: faults.major,
            poll_spent_ns: threads.poll_spent_ns(),
            poll_vain_ns: threads.poll_vain_ns(),
            tls_refused: crate::front::tls_refused(),
            confined: crate::confine::state().report(),
        },
    }
}

fn guard(shared: &cache::Shared, now_ns: u64) -> Guard {
    let state = shared.guard_state(now_ns);
    let why = |why: Option<cache::Why>| why.map(|why| why.to_string());
    Guard {
        on: state.on,
        expected_hits: shared.expected_hits(),
        reads_bypass: why(state.bypass.reads),
        writes_bypass: why(state.bypass.writes),
        times: state.times,
        bypass_ns: state.bypass_ns,
    }
}

fn files(report: &HintsReport) -> FileHints {
    let class = |(class, figures): (&policy::Class, &ClassFigures)| {
        let accesses = &figures.accesses;
        FileClass {
            class: class.name.to_owned(),
            hits: accesses.hits,
            misses: accesses.counts.misses,
            skipped: accesses.counts.skipped,
            spared: accesses.counts.spared,
            time_saved_ns: figures.time_saved_ns,
        }
    };
    let all = CLASSES.iter().zip(&report.classes).map(class);
    FileHints {
        followed: report.are_followed,
        age_ns: report.age_ns,
        map_bytes: report.map_bytes,
        classes: all.filter(|class| class.hits + class.misses > 0).collect(),
    }
}

fn policy(shared: &cache::Shared) -> Policy {
    let report = shared.policy();
    let queue = |(name, blocks): &(&str, u64)| Queue {
        name: (*name).to_owned(),
        bytes: blocks * BLOCK_BYTES,
    };
    Policy {
        name: report.kind.name().to_owned(),
        queues: report.queues.iter().map(queue).collect(),
        window_percent: report.window_share.map(|share| f64::from(share) * 100.0 / 1024.0),
    }
}

fn curve(shared: &cache::Shared, memory_bytes: u64, now_ns: u64) -> Option<Curve> {
    let CurveReport { answer, window_ns, earlier_ns } = shared.curve(now_ns)?;
    let counted = shared.counters(now_ns);
    // A request that misses waits once, for any number of missing blocks.
    let requests = counted.read_misses as f64 / counted.block_read_misses.max(1) as f64;
    let accesses_per_s = answer.accesses as f64 * 1e9 / window_ns as f64;
    let ns_per_s = accesses_per_s * requests * counted.backing_read_ns as f64;
    let is_measured = window_ns > 0 && counted.backing_read_ns > 0;
    let point = |point: usize| Point {
        memory_bytes: memory_bytes << point >> PRESENT,
        miss_ratio: answer.miss_ratios[point],
        uncompressed_miss_ratio: answer.uncompressed_miss_ratios.map(|ratios| ratios[point]),
        saves_ns_per_s: is_measured.then(|| 0.0 - answer.reads_missed_more[point] * ns_per_s),
    };
    Some(Curve {
        window_ns,
        earlier_ns,
        accesses: answer.accesses,
        is_too_small: answer.is_too_small,
        points: (0..POINTS).map(point).collect(),
    })
}

fn backing(service: &VolumeService, now_ns: u64) -> Backing {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let errors = service.errors();
    let Some(counts) = service.volume.counts() else {
        let counted = service.shared().map(|shared| shared.counters(now_ns)).unwrap_or_default();
        return Backing {
            reads: counted.read_misses,
            changes: counted.writes_through + counted.runs_written + counted.zeroes_written,
            flushes: counted.flushes_backing,
            errors: errors.sum(),
            errors_by_kind: errors,
            read_mean_ns: counted.backing_read_ns,
            kinds: None,
        };
    };
    let mean = |kind: &Kind| load(&kind.summed_ns) / load(&kind.requests).max(1);
    let Counts { reads, writes, zeroes, discards, flushes } = counts;
    let changes = [writes, zeroes, discards];
    Backing {
        reads: load(&reads.requests),
        changes: changes.map(|kind| load(&kind.requests)).iter().sum(),
        flushes: load(&flushes.requests),
        errors: errors.sum(),
        errors_by_kind: errors,
        read_mean_ns: mean(reads),
        kinds: Some(BackingKinds {
            read_bytes: load(&reads.bytes),
            write_bytes: load(&writes.bytes),
            zero_bytes: load(&zeroes.bytes),
            discard_bytes: load(&discards.bytes),
            write_mean_ns: mean(writes),
            flush_mean_ns: mean(flushes),
        }),
    }
}

fn export(waits: ExportWaits) -> Export {
    Export {
        unanswered: waits.unanswered,
        held: waits.held,
        oldest_ns: waits.oldest_ns,
        waits_for: waits.waits_for.map(str::to_owned),
        fences: waits.fences,
        settled_in_ns: waits.settled_in_ns,
    }
}

fn model(drive: &drive_backend::Shared) -> Model {
    let report = drive.report();
    let attributes = match (&report.health, &drive.model().kind) {
        (Some(health), drives::Kind::Flash(flash)) => {
            Some(health.attributes(flash.vendor).iter().map(attribute).collect())
        }
        _ => None,
    };
    Model {
        drive: drive.model().name.clone(),
        title: drive.model().title.clone(),
        power: if report.is_on { "on" } else { "off" }.to_owned(),
        reads: report.reads,
        writes: report.writes,
        trims: report.trims,
        flushes: report.flushes,
        refused: report.refused,
        power_cuts: report.power_cuts,
        lost_bytes: report.slots_lost * drives::SLOT_BYTES,
        data_bytes: report.data_bytes,
        lately: report.lately.as_ref().map(Lately::from),
        attributes,
        flash: report.health.as_ref().map(flash),
        lateness: report.lateness,
    }
}

fn flash(health: &drives::Health) -> Flash {
    let [erases_least, erases_mean, erases_most] = health.erases;
    Flash {
        host_written_bytes: health.host_written_bytes,
        host_read_bytes: health.host_read_bytes,
        nand_written_bytes: health.nand_written_bytes,
        write_amplification: health.write_amplification,
        erases_least,
        erases_mean,
        erases_most,
        worn_percent: health.worn_percent,
        free_superblocks: health.free_superblocks,
    }
}

fn attribute(attribute: &drives::Attribute) -> Attribute {
    Attribute {
        id: attribute.id,
        name: attribute.name.to_owned(),
        normalized: attribute.normalized,
        raw: attribute.raw.to_string(),
    }
}

fn member(counted: &MemberStatistics) -> Member {
    let state = match counted.state {
        MemberState::Good => "good",
        MemberState::Slow => "slow",
        MemberState::Failed => "failed",
    };
    Member {
        state: state.to_owned(),
        reads: counted.reads,
        writes: counted.writes,
        trims: counted.trims,
        errors: counted.errors,
        written_bytes: counted.written_bytes,
        free_bytes: counted.free_bytes,
        in_flight: counted.in_flight,
        latency_ns: counted.latency_ns,
    }
}

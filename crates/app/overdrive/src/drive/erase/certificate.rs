//! The certificate of an erasure.

use super::method::{Method, Plan};
use super::probes::Probes;
use crate::drive::target::Target;
use block::Size;
use report::circumstances::utc;
use serde_json::{Value, json};

/// The record of an erasure.
pub(super) struct Certificate {
    device: String,
    model: String,
    serial: String,
    capacity_bytes: u64,
    method: Method,
    begun_s: u64,
    ended_s: u64,
    probes: Probes,
}

impl Certificate {
    pub(super) fn of(
        target: &Target,
        plan: &Plan,
        probes: Probes,
        begun_s: u64,
        ended_s: u64,
    ) -> Certificate {
        Certificate {
            device: target.node.display().to_string(),
            model: target.identity.model.clone(),
            serial: target.identity.serial.clone(),
            capacity_bytes: target.claim.bytes(),
            method: plan.method,
            begun_s,
            ended_s,
            probes,
        }
    }

    /// Whether no block that was read still has its data.
    pub(super) fn is_clean(&self) -> bool {
        self.probes.unchanged() == 0
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "schema": "overdrive.drive.erase/1",
            "program": env!("CARGO_PKG_VERSION"),
            "device": self.device,
            "model": self.model,
            "serial": self.serial,
            "capacity_bytes": self.capacity_bytes,
            "method": self.method.name(),
            "meaning": self.method.words(),
            "begun": utc(self.begun_s),
            "ended": utc(self.ended_s),
            "clean": self.is_clean(),
            "blocks": self.probes.all(),
            "blocks_with_data_before": self.probes.with_data(),
            "blocks_unchanged": self.probes.unchanged(),
            "blocks_zero_after": self.probes.zero(),
            "samples": self.probes.as_json(),
        })
    }

    pub(super) fn as_text(&self) -> String {
        let probes = &self.probes;
        let verdict = match self.is_clean() {
            true => "erased",
            false => "NOT ERASED: blocks still have their data",
        };
        format!(
            "{}: {verdict} ({}, {}). Of {} blocks that were read, {} had data before, {} still \
             have it, {} are zero now.",
            self.device,
            Size(self.capacity_bytes),
            self.method.words(),
            probes.all(),
            probes.with_data(),
            probes.unchanged(),
            probes.zero(),
        )
    }
}

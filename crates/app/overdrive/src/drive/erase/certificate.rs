//! The certificate of an erasure.

use super::method::Method;
use super::plan::Plan;
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

    /// Whether no block that was read still has its data, and all could be read. After a sanitize
    /// operation a drive may refuse reads until a block is written.
    pub(super) fn is_clean(&self) -> bool {
        let is_readable = self.probes.unreadable_after() == 0;
        let may_be_unreadable = matches!(self.method, Method::Sanitize(..));
        self.probes.unchanged() == 0 && (is_readable || may_be_unreadable)
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
            "blocks_unreadable_before": self.probes.unreadable_before(),
            "blocks_unreadable_after": self.probes.unreadable_after(),
            "samples": self.probes.as_json(),
        })
    }

    pub(super) fn as_text(&self) -> String {
        let probes = &self.probes;
        let verdict = match (self.is_clean(), probes.unchanged()) {
            (true, _) => "erased",
            (false, 0) => "NOT VERIFIED: blocks cannot be read",
            (false, _) => "NOT ERASED: blocks still have their data",
        };
        let unreadable = match (probes.unreadable_before(), probes.unreadable_after()) {
            (0, 0) => String::new(),
            (before, after) => {
                format!(" {before} could not be read before, and {after} cannot be read now.")
            }
        };
        format!(
            "{}: {verdict} ({}, {}). Of {} blocks, {} had data before, {} still have it, {} are \
             zero now.{unreadable}",
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

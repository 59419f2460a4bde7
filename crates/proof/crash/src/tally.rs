//! Counts of the laboratory's work.

/// The amount of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Histories.
    pub histories: u64,
    /// Operations in them.
    pub operations: u64,
    /// Moments at which crashes were tested.
    pub crash_points: u64,
    /// Distinct states after power cuts, each recovered and judged.
    pub power_states: u64,
    /// Distinct states after kills, each recovered and judged.
    pub kill_states: u64,
    /// Distinct states after kills in the middle of a section, each recovered and judged.
    pub midway_states: u64,
    /// Distinct states after a crash that followed another one; not counted above.
    pub nested_states: u64,
    /// Kills with damaged memory.
    pub damaged_states: u64,
    /// States after power cuts, including nested ones, with an image from which a process with
    /// empty memory had been started before in the same history: judged by the promises of their
    /// moment, but without starting a process.
    pub repeated_images: u64,
    /// States after power cuts, including nested ones, that occurred before in the same history,
    /// with the same promises to clients: they are counted twice above.
    pub repeated_states: u64,
    /// Compressed blocks that processes have found in the memory of a killed one.
    pub objects_found: u64,
    /// Reads of compressed blocks by such processes, where all data was read after the kill.
    pub objects_read: u64,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        self.histories += other.histories;
        self.operations += other.operations;
        self.crash_points += other.crash_points;
        self.power_states += other.power_states;
        self.kill_states += other.kill_states;
        self.midway_states += other.midway_states;
        self.nested_states += other.nested_states;
        self.damaged_states += other.damaged_states;
        self.repeated_images += other.repeated_images;
        self.repeated_states += other.repeated_states;
        self.objects_found += other.objects_found;
        self.objects_read += other.objects_read;
    }

    /// Returns the number of distinct states. (Damaged memory is random, and might repeat: not
    /// counted.)
    pub fn states(&self) -> u64 {
        self.power_states + self.kill_states + self.midway_states + self.nested_states
    }
}

//! How a drive is erased: the methods, and which of them a drive has.

use super::Choice;
use host::disks::Interface;
use host::nvme::SanitizeAction;

/// The set of commands that a drive takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Commands {
    Nvme,
    Scsi,
}

/// The methods by which a drive erases itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Own {
    pub(super) commands: Commands,
    /// Whether it sanitizes by key, by block, and by overwriting.
    pub(super) sanitizes: [bool; 3],
    pub(super) can_format: bool,
}

impl Own {
    fn has(&self, action: SanitizeAction) -> bool {
        let [key, blocks, overwrite] = self.sanitizes;
        match action {
            SanitizeAction::Key => key,
            SanitizeAction::Blocks => blocks,
            SanitizeAction::Overwrite => overwrite,
        }
    }

    /// Returns the first of these that it has.
    fn first(&self, actions: &[SanitizeAction]) -> Option<Method> {
        let found = actions.iter().find(|action| self.has(**action));
        found.map(|action| Method::Sanitize(self.commands, *action))
    }

    fn format(&self) -> Option<Method> {
        self.can_format.then_some(Method::Format(self.commands))
    }

    /// Returns the method that erases most. Erasing a key is the last one: it is enough only if the
    /// drive has encrypted all data. Overwriting wears the flash of NVMe drives.
    fn best(&self) -> Option<Method> {
        use SanitizeAction::{Blocks, Key, Overwrite};
        match self.commands {
            Commands::Nvme => self
                .first(&[Blocks])
                .or_else(|| self.format())
                .or_else(|| self.first(&[Overwrite, Key])),
            Commands::Scsi => self
                .first(&[Blocks, Overwrite])
                .or_else(|| self.format())
                .or_else(|| self.first(&[Key])),
        }
    }
}

/// A method, as far as the drive has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    Sanitize(Commands, SanitizeAction),
    Format(Commands),
    Discard,
    Zero,
    /// Commands for hdparm, which are printed.
    AtaLines,
}

impl Method {
    pub(super) fn name(self) -> &'static str {
        use Commands::{Nvme, Scsi};
        match self {
            Method::Sanitize(Nvme, SanitizeAction::Blocks) => "nvme-sanitize-block",
            Method::Sanitize(Nvme, SanitizeAction::Overwrite) => "nvme-sanitize-overwrite",
            Method::Sanitize(Nvme, SanitizeAction::Key) => "nvme-sanitize-key",
            Method::Sanitize(Scsi, SanitizeAction::Blocks) => "scsi-sanitize-block",
            Method::Sanitize(Scsi, SanitizeAction::Overwrite) => "scsi-sanitize-overwrite",
            Method::Sanitize(Scsi, SanitizeAction::Key) => "scsi-sanitize-key",
            Method::Format(Nvme) => "nvme-format",
            Method::Format(Scsi) => "scsi-format",
            Method::Discard => "discard",
            Method::Zero => "zero",
            Method::AtaLines => "ata-security-erase",
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Method::Sanitize(_, SanitizeAction::Blocks) => {
                "sanitize: the drive erases all its flash, spare blocks too"
            }
            Method::Sanitize(_, SanitizeAction::Overwrite) => {
                "sanitize: the drive overwrites all its blocks, spare blocks too"
            }
            Method::Sanitize(_, SanitizeAction::Key) => {
                "sanitize: the drive erases the key of its encryption"
            }
            Method::Format(Commands::Nvme) => "format: the drive erases the data of its namespace",
            Method::Format(Commands::Scsi) => {
                "format: the drive initializes all its blocks; until the end it must keep its power"
            }
            Method::Discard => "discard: the drive forgets its data, but its flash may keep it",
            Method::Zero => "zeros are written; spare blocks of the flash keep old data",
            Method::AtaLines => "by the drive itself (ATA Security Erase)",
        }
    }
}

/// Returns the method for a drive: the chosen one, or the best that it has.
///
/// # Errors
/// The reason why the drive does not have the chosen one.
pub(super) fn method_of(
    interface: Interface,
    can_discard: bool,
    own: Option<&Own>,
    choice: Option<Choice>,
) -> Result<Method, &'static str> {
    use SanitizeAction::{Blocks, Key, Overwrite};
    let sanitize = |actions: &[SanitizeAction]| {
        let found = own.and_then(|own| own.first(actions));
        found.ok_or(
            "does not report this kind of Sanitize, a command of NVMe and SCSI; leave --method out \
             for the best method that it has",
        )
    };
    match choice {
        Some(Choice::Sanitize) => sanitize(&[Blocks, Overwrite, Key]),
        Some(Choice::SanitizeBlock) => sanitize(&[Blocks]),
        Some(Choice::SanitizeOverwrite) => sanitize(&[Overwrite]),
        Some(Choice::SanitizeKey) => sanitize(&[Key]),
        Some(Choice::Format) => own.and_then(Own::format).ok_or(
            "does not report Format, a command of NVMe and SCSI; leave --method out for the best \
             method that it has",
        ),
        Some(Choice::Discard) if can_discard => Ok(Method::Discard),
        Some(Choice::Discard) => Err("does not support discards; use --method zero"),
        Some(Choice::Zero) => Ok(Method::Zero),
        None if interface == Interface::Ata => Ok(Method::AtaLines),
        None => {
            let rest = if can_discard { Method::Discard } else { Method::Zero };
            Ok(own.and_then(Own::best).unwrap_or(rest))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Commands::{Nvme, Scsi};

    #[test]
    fn the_best_method_that_a_drive_has_is_chosen() {
        let own = |commands, sanitizes, can_format| Own { commands, sanitizes, can_format };
        let best = |interface, can_discard, own: Option<&Own>| {
            method_of(interface, can_discard, own, None)
        };
        let blocks = |commands| Method::Sanitize(commands, SanitizeAction::Blocks);
        let overwrite = |commands| Method::Sanitize(commands, SanitizeAction::Overwrite);
        let key = |commands| Method::Sanitize(commands, SanitizeAction::Key);
        for (own, expected) in [
            (own(Nvme, [true, true, true], true), blocks(Nvme)),
            (own(Nvme, [true, false, true], true), Method::Format(Nvme)),
            (own(Nvme, [true, false, true], false), overwrite(Nvme)),
            (own(Nvme, [true, false, false], false), key(Nvme)),
            (own(Nvme, [false; 3], false), Method::Discard),
            (own(Scsi, [true, true, true], true), blocks(Scsi)),
            (own(Scsi, [true, false, true], true), overwrite(Scsi)),
            (own(Scsi, [true, false, false], true), Method::Format(Scsi)),
            (own(Scsi, [true, false, false], false), key(Scsi)),
            (own(Scsi, [false; 3], false), Method::Discard),
        ] {
            let interface = if own.commands == Nvme { Interface::Nvme } else { Interface::Scsi };
            assert_eq!(best(interface, true, Some(&own)), Ok(expected));
        }
        assert_eq!(best(Interface::Usb, false, None), Ok(Method::Zero));
        assert_eq!(best(Interface::Other, true, None), Ok(Method::Discard));
        // Lines are printed, whatever else the drive has.
        assert_eq!(best(Interface::Ata, true, None), Ok(Method::AtaLines));
    }

    #[test]
    fn a_chosen_method_is_that_one_or_none() {
        let own = Own { commands: Scsi, sanitizes: [true, true, false], can_format: false };
        let of = |own, choice| method_of(Interface::Scsi, false, own, Some(choice));
        let by = |action| Ok(Method::Sanitize(Scsi, action));
        assert_eq!(of(Some(&own), Choice::Sanitize), by(SanitizeAction::Blocks));
        assert_eq!(of(Some(&own), Choice::SanitizeKey), by(SanitizeAction::Key));
        for choice in [Choice::SanitizeOverwrite, Choice::Format, Choice::Discard] {
            assert!(of(Some(&own), choice).is_err(), "{choice:?}");
        }
        for choice in [Choice::Sanitize, Choice::SanitizeBlock, Choice::Format] {
            assert!(of(None, choice).is_err(), "{choice:?}");
        }
        let zero = method_of(Interface::Ata, true, None, Some(Choice::Zero));
        assert_eq!(zero, Ok(Method::Zero));
    }
}

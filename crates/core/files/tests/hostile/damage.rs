//! Bit flips, truncations, and volumes that change while they are read.

use crate::judge::{EXT4_AT, EXT4_MARK, XFS_MARK, bounds, judge, judge_input, parse};
use crate::sparse::Sparse;
use crate::{images, shapes};
use files::{Class, ReadAt, ReadFailed, map_volume};
use std::fs;
use std::path::Path;

/// Options of mkfs.ext4 for images whose bits are flipped.
const EXT4: [&str; 5] = [
    "-b 1024",
    "-b 1024 -t ext3",
    "-b 4096 -O inline_data -I 256",
    "-b 1024 -O meta_bg,^resize_inode -g 1024",
    "-b 1024 -O bigalloc -C 8192",
];
const XFS: [&str; 2] = ["", "-b size=1024"];

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 33) % bound as u64) as usize
    }
}

/// Changes a few bits of the stored sectors. Most of these are metadata.
fn flip(image: &mut Sparse, random: &mut Random) {
    let numbers: Vec<u64> = image.stored.keys().copied().collect();
    for _ in 0..1 + random.below(6) {
        // Half of the changes are at the beginning, in superblocks and headers.
        let bound = if random.below(2) == 0 { numbers.len() } else { numbers.len().min(40) };
        let at = numbers[random.below(bound)] * 512 + random.below(512) as u64;
        let old = image.stored[&(at / 512)][(at % 512) as usize];
        let new = match random.below(4) {
            0 => 0,
            1 => 0xff,
            _ => old ^ 1 << random.below(8),
        };
        image.set(at, new);
    }
}

fn flips_of(image: &Sparse, cases: usize) {
    for seed in 0..cases {
        let mut damaged = image.clone();
        flip(&mut damaged, &mut Random(seed as u64 * 77 + 1));
        judge(&mut damaged);
    }
}

#[test]
fn flipped_bits_of_ext4_change_the_map_only() {
    for image in EXT4.into_iter().filter_map(images::ext4) {
        flips_of(&image, 40);
    }
}

#[test]
fn flipped_bits_of_xfs_change_the_map_only() {
    for image in XFS.into_iter().filter_map(images::xfs) {
        flips_of(&image, 40);
    }
}

#[test]
fn cut_images_show_the_files_before_the_cut() {
    let images = [images::ext4("-b 1024"), images::xfs("")];
    for image in images.into_iter().flatten() {
        let whole = judge(&mut image.clone());
        for part in [0, 1, 2, 3, 9, 64, 200, 4000, image.sectors - 1] {
            let mut cut = image.clone();
            cut.sectors = part;
            let map = judge(&mut cut);
            for extent in map.extents().filter(|extent| whole.path(extent.owner).is_some()) {
                let before = whole.find(extent.first).map(|extent| whole.path(extent.owner));
                assert_eq!(before, Some(map.path(extent.owner)), "{extent:?}");
            }
        }
    }
}

/// A volume that becomes another one after some reads, and fails at some.
struct Changing {
    before: Sparse,
    after: Sparse,
    reads: u64,
    change: u64,
    fail_every: u64,
}

impl ReadAt for Changing {
    fn bytes(&self) -> u64 {
        self.before.bytes().max(self.after.bytes())
    }

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<(), ReadFailed> {
        self.reads += 1;
        if self.reads.is_multiple_of(self.fail_every) {
            return Err(ReadFailed);
        }
        let now = if self.reads > self.change { &mut self.after } else { &mut self.before };
        let inside = now.bytes().saturating_sub(offset).min(into.len() as u64) as usize;
        into[inside..].fill(0);
        if inside > 0 { now.read_at(offset, &mut into[..inside]) } else { Ok(()) }
    }
}

#[test]
fn a_volume_that_is_formatted_at_that_moment_has_a_map() {
    let (Some(before), Some(after)) = (images::ext4("-b 1024"), images::xfs("")) else { return };
    for change in (0..30).step_by(2) {
        for (before, after) in [(&before, &after), (&after, &before)] {
            let (before, after) = (before.clone(), after.clone());
            let mut volume = Changing { before, after, reads: 0, change, fail_every: u64::MAX };
            let map = map_volume(&mut volume, &bounds(), 1);
            assert!(map.extents().all(|extent| extent.end() <= volume.bytes() / 512));
        }
    }
}

#[test]
fn a_volume_that_fails_is_left_after_a_few_reads() {
    for image in [images::ext4(""), images::xfs("")].into_iter().flatten() {
        for fail_every in [1, 2, 3] {
            let (before, after) = (image.clone(), image.clone());
            let mut volume = Changing { before, after, reads: 0, change: 0, fail_every };
            let map = map_volume(&mut volume, &bounds(), 1);
            let failed = volume.reads / fail_every;
            assert!(failed <= u64::from(bounds().failed_reads) + 1, "{failed} reads failed");
            assert!(fail_every > 1 || map.files() == 0);
        }
    }
}

#[test]
fn any_bytes_are_no_danger_as_a_map() {
    let Some(mut image) = images::ext4("-b 1024") else { return };
    let bytes = judge(&mut image).into_bytes();
    let mut random = Random(5);
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + random.below(4) {
            let bound = if random.below(2) == 0 { 64 } else { damaged.len() };
            let at = random.below(bound);
            damaged[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)];
        }
        let length = if random.below(3) == 0 { random.below(damaged.len()) } else { damaged.len() };
        parse(&damaged[..length]);
    }
}

#[test]
fn bounds_end_a_map_and_it_says_so() {
    let Some(mut image) = shapes::whole() else { return };
    let whole = map_volume(&mut image, &bounds(), 1);
    assert!(!whole.is_incomplete());
    for cut in [
        files::Bounds { steps: 150, ..bounds() },
        files::Bounds { read_bytes: 100_000, ..bounds() },
        files::Bounds { memory_bytes: 4000, ..bounds() },
        files::Bounds { depth: 0, ..bounds() },
    ] {
        let map = map_volume(&mut image.clone(), &cut, 1);
        assert!(map.is_incomplete() && map.files() < whole.files(), "{cut:?}");
    }
}

/// Sectors of metadata and directories only: the readers look at no others.
fn without_data(image: &Sparse) -> Sparse {
    let mut image = image.clone();
    let map = judge(&mut image);
    let is_read = |number: u64| {
        let class = map.find(number).map_or(Class::Unknown, |extent| extent.class);
        matches!(class, Class::Metadata | Class::Directories)
    };
    image.stored.retain(|number, _| is_read(*number));
    image
}

#[test]
fn inputs_of_the_fuzzers_are_survived() {
    for (image, mark, at) in
        [(images::ext4("-b 1024"), &EXT4_MARK[..], EXT4_AT), (images::xfs(""), &XFS_MARK[..], 0)]
    {
        let Some(image) = image else { continue };
        let input = without_data(&image).encode();
        let again = Sparse::decode(&input);
        assert!(input.len() < 300_000 && again.stored.len() > 20, "{} bytes", input.len());
        assert_eq!(judge(&mut again.clone()).files(), 126);
        let mut random = Random(9);
        for _ in 0..30 {
            let mut damaged = input.clone();
            for _ in 0..1 + random.below(8) {
                let at = random.below(damaged.len());
                damaged[at] = random.below(256) as u8;
            }
            judge_input(&damaged[..1 + random.below(damaged.len())], mark, at);
        }
    }
    for length in 0..40 {
        judge_input(&vec![0xff; length * 97], b"", 0);
    }
}

/// Writes the inputs from which the fuzzers begin:
/// `cargo test -p files --test hostile -- --ignored`.
#[test]
#[ignore = "writes the corpus of the fuzzers"]
fn seeds_of_the_fuzzers() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
    let kinds = [("ext4", EXT4.map(images::ext4).to_vec()), ("xfs", XFS.map(images::xfs).to_vec())];
    for (kind, images) in kinds {
        fs::create_dir_all(corpus.join(kind)).expect("made");
        for (number, image) in images.iter().flatten().enumerate() {
            let input = without_data(image).encode();
            fs::write(corpus.join(kind).join(format!("seed{number}")), input).expect("written");
        }
    }
    let Some(mut image) = images::ext4("-b 1024") else { return };
    fs::create_dir_all(corpus.join("map")).expect("made");
    fs::write(corpus.join("map/seed0"), judge(&mut image).bytes()).expect("written");
}

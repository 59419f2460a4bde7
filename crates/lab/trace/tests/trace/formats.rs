//! The formats: small files as their sources describe them, their errors, and their detection.

use crate::readers::{Read, all, read};
use proptest::prelude::*;
use trace::Direction::{Other, Read as In, Write as Out};
use trace::recording::{blocks, header};
use trace::{Direction, Event, Format, Operation, Reader};

type Short = (u64, u32, Direction, u64, u64);

fn whole(format: Format, bytes: &[u8]) -> Read {
    read(format, core::iter::once(bytes))
}

/// Returns all accesses of a file that must be valid.
fn good(format: Format, bytes: &[u8]) -> Vec<Short> {
    let (accesses, _, ended) = whole(format, bytes);
    ended.expect("a good file");
    let short = |access: &trace::Access| {
        (access.time_ns, access.device, access.direction, access.first_byte, access.bytes)
    };
    accesses.iter().map(short).collect()
}

fn bad(format: Format, bytes: &[u8]) -> String {
    whole(format, bytes).2.expect_err("a bad file")
}

fn detected(name: &str, bytes: &[u8]) -> Result<Format, String> {
    Format::detect(name, bytes, true).map_err(|malformed| malformed.to_string())
}

fn vscsi_one(bytes: u32, command: u16, block: u64, time_us: u64) -> Vec<u8> {
    let mut record = Vec::new();
    for word in [0x8000_00f4, bytes, 1] {
        record.extend_from_slice(&u32::to_le_bytes(word));
    }
    record.extend_from_slice(&command.to_le_bytes());
    record.extend_from_slice(&0x0100u16.to_le_bytes());
    record.extend_from_slice(&block.to_le_bytes());
    record.extend_from_slice(&time_us.to_le_bytes());
    record
}

fn vscsi_two(bytes: u32, command: u16, block: u64, time_us: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend_from_slice(&command.to_le_bytes());
    record.extend_from_slice(&0x0200u16.to_le_bytes());
    for word in [7, bytes, 1] {
        record.extend_from_slice(&u32::to_le_bytes(word));
    }
    for long in [block, time_us, 99] {
        record.extend_from_slice(&u64::to_le_bytes(long));
    }
    record
}

fn oracle(time: u32, object: u64, bytes: u32, next: i64) -> Vec<u8> {
    let mut record = time.to_le_bytes().to_vec();
    record.extend_from_slice(&object.to_le_bytes());
    record.extend_from_slice(&bytes.to_le_bytes());
    record.extend_from_slice(&next.to_le_bytes());
    record
}

#[test]
fn vscsi_has_two_versions() {
    for record in [vscsi_one, vscsi_two] {
        let file = [
            record(512, 0x2a, 42_932_745, 1_000),
            record(6656, 0x28, 8, 1_001),
            record(0, 0x35, 0, 1_002),
            record(4096, 0x88, 1 << 40, 1_003),
        ];
        let expected: [Short; 4] = [
            (1_000_000, 0, Out, 42_932_745 * 512, 512),
            (1_001_000, 0, In, 4096, 6656),
            (1_002_000, 0, Other, 0, 0),
            (1_003_000, 0, In, 1 << 49, 4096),
        ];
        assert_eq!(good(Format::Vscsi, &file.concat()), expected);
        assert_eq!(good(Format::Vscsi, &file[0]), expected[..1], "one record is a file, too");
        assert_eq!(detected("a/x", &file.concat()), Ok(Format::Vscsi));
        let size = file[0].len();
        let cut = bad(Format::Vscsi, &file.concat()[..2 * size + 5]);
        assert_eq!(
            cut,
            format!("byte {}: the file is truncated: it ends 5 bytes into a record", 2 * size)
        );
        let far = bad(Format::Vscsi, &[&file[0][..], &record(512, 0x28, u64::MAX, 1)].concat());
        assert_eq!(far, format!("byte {size}: the request reaches beyond 1 EiB"));
        let late = bad(Format::Vscsi, &record(512, 0x28, 1, u64::MAX));
        assert!(late.ends_with("the time is out of range"), "{late}");
        let long = bad(Format::Vscsi, &record(u32::MAX, 0x28, 1, 1));
        assert!(long.ends_with("the request is longer than 1 GiB"), "{long}");
    }
    let mixed = [vscsi_one(512, 0x28, 0, 0), vscsi_two(512, 0x28, 0, 0)].concat();
    let mixed = bad(Format::Vscsi, &[&mixed[..], &[0; 24]].concat());
    assert!(mixed.starts_with("byte 32: the version differs"), "{mixed}");
    assert!(bad(Format::Vscsi, &[0; 64]).starts_with("byte 0: this is not a vscsi record"));
}

#[test]
fn the_five_columns_have_two_readings() {
    let text = b"0 0 303567 7 0\n0 1 55590 6 0\n78643005 1 55596 6 1\r\n\n9 0 1 1 0";
    let expected: [Short; 4] = [
        (0, 0, Out, 303_567 * 512, 7 * 512),
        (0, 1, Out, 55_590 * 512, 6 * 512),
        (78_643_005, 1, In, 55_596 * 512, 6 * 512),
        (9, 0, Out, 512, 512),
    ];
    assert_eq!(good(Format::Ssdsim, text), expected);
    assert_eq!(good(Format::Mqsim, text), expected);
    let turned = expected.map(|it| (it.0, it.1, if it.2 == In { Out } else { In }, it.3, it.4));
    assert_eq!(good(Format::SsdsimZeroReads, text), turned);
    assert_eq!(
        detected("x.trace", text),
        Err("the last column is ambiguous: 25.0 % of the first 4 requests are reads if 1 is a read \
             (--format ssdsim, or mqsim), 75.0 % if 0 is one (--format ssdsim-0-reads); name one \
             of these formats"
            .to_owned())
    );
    for line in ["1 2 3 4 2", "1 2 3 4", "1 2 3 4 1 9", "1.5 2 3 4 1", "-1 2 3 4 1", "x"] {
        let message = bad(Format::Ssdsim, format!("1 0 8 8 1\n{line}").as_bytes());
        assert_eq!(message, format!("line 2: not 'ns device sector sectors 0|1': {line}"));
    }
    let far = bad(Format::Mqsim, b"1 0 18446744073709551615 8 1");
    assert!(far.starts_with("line 1: the request reaches beyond 1 EiB: "), "{far}");
}

#[test]
fn disksim_counts_in_milliseconds_and_its_flags_are_hexadecimal() {
    let text = b"7961.833 0 20228336 8 0\n8346.206 1 6397360 496 1\n8347 0 8 8 b\n";
    let expected: [Short; 3] = [
        (7_961_833_000, 0, Out, 20_228_336 * 512, 4096),
        (8_346_206_000, 1, In, 6_397_360 * 512, 496 * 512),
        (8_347_000_000, 0, In, 4096, 4096),
    ];
    assert_eq!(good(Format::Disksim, text), expected);
    assert_eq!(good(Format::DisksimZeroReads, text)[0].2, In);
    let told = detected("x", text).expect_err("either");
    assert!(
        told.contains("66.7 % of the first 3 requests are reads if 1 is a read (--format disksim)"),
        "{told}"
    );
    assert!(told.contains("33.3 % if 0 is one (--format disksim-0-reads)"), "{told}");
    assert!(bad(Format::Disksim, b"1 0 8 8 g").starts_with("line 1: not 'ms device"));
}

#[test]
fn the_formats_with_commas_are_distinguished() {
    let msr = b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
        128166372003061629,usr,0,Read,7014609920,24576,41286\n\
        128166372016382155,usr,1,Write,2517,512,1963\n128166372016382155,usr,0,write,0,512,1\n";
    let expected: [Short; 3] = [
        (12_816_637_200_306_162_900, 0, In, 7_014_609_920, 24_576),
        (12_816_637_201_638_215_500, 1, Out, 2517, 512),
        (12_816_637_201_638_215_500, 0, Out, 0, 512),
    ];
    assert_eq!(good(Format::Msr, msr), expected);
    assert_eq!(whole(Format::Msr, msr).1, ["usr:0", "usr:1"]);

    let alibaba = b"419,W,8792731648,16384,1577808144360767\n725,R,4096,512,1577808144360768\n";
    let expected: [Short; 2] = [
        (1_577_808_144_360_767_000, 0, Out, 8_792_731_648, 16_384),
        (1_577_808_144_360_768_000, 1, In, 4096, 512),
    ];
    assert_eq!(good(Format::Alibaba, alibaba), expected);
    assert_eq!(whole(Format::Alibaba, alibaba).1, ["419", "725"]);

    let tencent = b"1538323200,12910952,128,0,1063\n1538323201,8,8,1,1063\n";
    let expected: [Short; 2] = [
        (1_538_323_200_000_000_000, 0, In, 12_910_952 * 512, 65_536),
        (1_538_323_201_000_000_000, 0, Out, 4096, 4096),
    ];
    assert_eq!(good(Format::Tencent, tencent), expected);

    let spc = b"0,303567,3584,w,0.000000\n1,55590,3072,R,0.026214,77\n";
    let expected: [Short; 2] =
        [(0, 0, Out, 303_567 * 512, 3584), (26_214_000, 1, In, 55_590 * 512, 3072)];
    assert_eq!(good(Format::Spc, spc), expected);

    let plain = b"op,offset,length\n# a remark\nR,0,4096\nwrite, 8192, 512\nTRIM,0,99999999999\n";
    let expected: [Short; 3] =
        [(0, 0, In, 0, 4096), (0, 0, Out, 8192, 512), (0, 0, Other, 0, 99_999_999_999)];
    assert_eq!(good(Format::Csv, plain), expected);
    assert_eq!(good(Format::Csv, b"r 0 4096\nW\t8 1\n").len(), 2);

    for (format, bytes) in [
        (Format::Msr, &msr[..]),
        (Format::Alibaba, alibaba),
        (Format::Tencent, tencent),
        (Format::Spc, spc),
        (Format::Csv, plain),
        (Format::Csv, b"r 0 4096\nW\t8 1\n"),
    ] {
        assert_eq!(detected("x.csv", bytes), Ok(format));
        // A wrong line after good ones is reported as such.
        let more = [bytes, b"\x1b[2J broken\n"].concat();
        assert_eq!(detected("x.csv", &more), Ok(format));
        let lines = more.iter().filter(|byte| **byte == b'\n').count();
        let message = bad(format, &more);
        assert!(message.starts_with(&format!("line {lines}: not '")), "{message}");
        assert!(message.ends_with(": \\x1b[2J broken"), "{message}");
    }
    let late = bad(Format::Alibaba, b"1,R,0,512,18446744073709551615");
    assert!(late.starts_with("line 1: the time is out of range"), "{late}");
    let huge = bad(Format::Csv, b"R,0,1073741825");
    assert!(huge.starts_with("line 1: the request is longer than 1 GiB"), "{huge}");
}

const BLKPARSE: &str = "\
259,2    0        1     0.000000900  4020  Q   R 282624 + 8 [java]
259,2    1        1     0.000000100  4021  Q  WS 8 + 16 [java]
259,2    0        2     0.000001581  4020  G   R 282624 + 8 [java]
259,2    0        3     0.000003650  4020  U   N [java] 1
259,2    0        3     0.000003700  4020  M   W 24 + 8 [java]
259,2    0        4     0.000003800  4020  Q FWS [java]
259,3    0        5     0.000005462  4020  D  RS 282624 + 8 [java]
259,2    0        5     0.000005500  4020  Q   D 0 + 4096 [java]
259,2    0        5     0.000005500     0  m   N cfq workload slice
259,2    0        6     0.013163464     0  C  RS 282624 + 8 [0]
CPU0 (blk.txt):
 Reads Queued:           4,       16KiB  Writes Queued:           0,        0KiB
";

#[test]
fn blkparse_is_put_in_order_and_merges_are_reported() {
    let expected: [Short; 4] = [
        (100, 0, Out, 4096, 8192),
        (900, 0, In, 282_624 * 512, 4096),
        (3800, 0, Other, 0, 0),
        (5500, 0, Other, 0, 4096 * 512),
    ];
    assert_eq!(good(Format::Blkparse, BLKPARSE.as_bytes()), expected);
    let (_, names, notes) = whole(Format::Blkparse, BLKPARSE.as_bytes());
    assert_eq!((names, notes.map(|notes| notes.merged)), (vec!["259:2".to_owned()], Ok(1)));
    assert_eq!(
        good(Format::BlkparseSent, BLKPARSE.as_bytes()),
        [(5462, 0, In, 282_624 * 512, 4096)]
    );
    assert_eq!(detected("x", BLKPARSE.as_bytes()), Ok(Format::Blkparse));
    let sent = BLKPARSE.replace(" Q ", " X ");
    assert_eq!(detected("x", sent.as_bytes()), Ok(Format::BlkparseSent));
    for line in ["259,2 0 1 0.1 1 Q R 8 8", "259,2 0 1 0.1 1 Q R", "259 0 1 0.1 1 Q R 8 + 8", "x"] {
        let message = bad(Format::Blkparse, BLKPARSE.replace("CPU0", line).as_bytes());
        assert!(message.starts_with("line 11: not 'major,minor cpu"), "{message}");
    }
}

/// The output of blkparse 1.2.0 without options, with -q and with -s, shortened.
const STATISTICS: &str = "\
my prog (x) (4020)
 Reads Queued:           4,       16KiB\t Writes Queued:           0,        0KiB
 Allocation wait:        0        \t Allocation wait:         0
unknown (0, ...)
 Completion wait:        0        \t Completion wait:         0

CPU0 (sda):
 Reads Queued:           4,       16KiB\t Writes Queued:           0,        0KiB
 Read depth:             1        \t Write depth:             0

Throughput (R/W): 0KiB/s / 0KiB/s
Events (sda): 16 entries
Skips: 0 forward (0 -   0.0%)
";
const INPUT: &str = "Input file sda.blktrace.0 added\n";

#[test]
fn joined_texts_of_blkparse_are_read_to_their_end() {
    let events = |count: u64| -> String {
        let line = |at| format!("8,0 0 {at} 0.{at:09} 42 Q R {} + 8 [my prog (x)]\n", at * 8);
        (1..=count).map(line).collect()
    };
    let quiet = events(3) + INPUT;
    let with_processes = events(4) + STATISTICS + INPUT;
    for (text, accesses, joined, skipped) in [
        (quiet.clone(), 3, 0, 1),
        (with_processes.clone(), 4, 0, 12),
        (quiet.clone() + &quiet, 6, 1, 2),
        (with_processes.repeat(3) + &events(5), 17, 3, 36),
        (INPUT.to_owned() + &quiet, 3, 0, 2),
    ] {
        let (read, _, notes) = whole(Format::Blkparse, text.as_bytes());
        let notes = notes.unwrap_or_else(|error| panic!("{error} in {text}"));
        assert_eq!((read.len(), notes.joined, notes.skipped_lines), (accesses, joined, skipped));
        assert_eq!(notes.late, 0);
        assert_eq!(detected("x", text.as_bytes()), Ok(Format::Blkparse));
    }
    // The times of each text start again, and its requests stay after those before.
    let twice = good(Format::Blkparse, quiet.repeat(2).as_bytes());
    assert!(twice.iter().map(|access| access.0).eq([1, 2, 3, 1, 2, 3]));
    // Other events in between are counted; other lines are refused.
    let (_, _, notes) = whole(Format::Blkparse, BLKPARSE.as_bytes());
    let notes = notes.expect("good");
    assert_eq!((notes.other_events, notes.skipped_lines, notes.merged), (5, 2, 1));
    for line in ["java", "java ()", "java (x)", "(7)", "java(7)", "8,0 0 1 0.1 x Q R 8 + 8"] {
        let message = bad(Format::Blkparse, (quiet.clone() + line + "\n" + &quiet).as_bytes());
        assert!(message.starts_with("line 5: not 'major,minor cpu"), "{message}");
    }
}

#[test]
fn headings_comments_and_marks_of_text_are_skipped_and_counted() {
    let mark = "\u{feff}";
    for (text, skipped) in [
        ("op,offset_512,length4k\nR,0,4096\n", 1),
        ("# a comment\nop offset length\nR 0 4096\n# another\n", 3),
        ("op,\"offset\",length\r\nR,0,4096\r\n", 1),
        ("R,0,4096\n\n", 0),
    ] {
        for text in [text.to_owned(), format!("{mark}{text}")] {
            let (accesses, _, notes) = whole(Format::Csv, text.as_bytes());
            let notes = notes.unwrap_or_else(|error| panic!("{error} in {text}"));
            assert_eq!((accesses.len(), notes.skipped_lines), (1, skipped), "{text}");
            assert_eq!(detected("x", text.as_bytes()), Ok(Format::Csv), "{text}");
        }
    }
    // A heading is allowed once, before the first request, and has no number among its names.
    for text in ["op,offset,length\nop,offset,length\n", "R,0,1\nop,offset,length\n", "op,0,a\n"] {
        assert!(bad(Format::Csv, text.as_bytes()).contains("not 'op offset length'"), "{text}");
    }
    let alibaba = "device_id,opcode,offset_4k,length,timestamp\n1,R,0,512,7\n";
    let (accesses, _, notes) = whole(Format::Alibaba, alibaba.as_bytes());
    assert_eq!((accesses.len(), notes.map(|notes| notes.skipped_lines)), (1, Ok(1)));
}

#[test]
fn blocks_of_arc_are_pages_or_sectors() {
    let text = b"110765 64 0 0\n110888 1 0 1\r\n\n 110829\t59 7 2";
    let expected: [Short; 3] = [
        (0, 0, In, 110_765 * 4096, 64 * 4096),
        (0, 0, In, 110_888 * 4096, 4096),
        (0, 0, In, 110_829 * 4096, 59 * 4096),
    ];
    assert_eq!(good(Format::Arc, text), expected);
    let sectors = expected.map(|it| (it.0, it.1, it.2, it.3 / 8, it.4 / 8));
    assert_eq!(good(Format::ArcSectors, text), sectors);
    assert_eq!(detected("OLTP.lis", text), Ok(Format::Arc));
    assert_eq!(detected("x", b"1 1 0 0\n2 1 0 0\n"), Ok(Format::Arc), "without numbers");
    for line in ["1 2 3", "1 2 3 4 5", "1 2 3 x", "1,2,3,4", "-1 2 0 0", "1.5 2 0 0", "x"] {
        let refusal = bad(Format::Arc, format!("1 1 0 0\n{line}").as_bytes());
        assert_eq!(refusal, format!("line 2: not 'block blocks ignored request': {line}"));
    }
    for (format, last) in [(Format::Arc, 1u64 << 48), (Format::ArcSectors, 1 << 51)] {
        assert_eq!(good(format, format!("{} 1 0 0", last - 1).as_bytes()).len(), 1);
        for first in [last, u64::MAX] {
            let far = bad(format, format!("{first} 1 0 0").as_bytes());
            assert!(far.starts_with("line 1: the request reaches beyond 1 EiB: "), "{far}");
        }
    }
    assert_eq!(good(Format::Arc, b"0 262144 0 0")[0].4, 1 << 30);
    let long = bad(Format::Arc, b"0 262145 0 0");
    assert!(long.starts_with("line 1: the request is longer than 1 GiB"), "{long}");
}

#[test]
fn objects_are_sectors_or_names() {
    let file =
        [oracle(1, 42, 512, 1), oracle(1, 42, 9000, -1), oracle(3, (1 << 48) - 2, 512, i64::MAX)]
            .concat();
    let expected: [Short; 3] = [
        (1_000_000_000, 0, In, 42 * 512, 512),
        (1_000_000_000, 0, In, 42 * 512, 9000),
        (3_000_000_000, 0, In, ((1 << 48) - 2) * 512, 512),
    ];
    assert_eq!(good(Format::OracleGeneral, &file), expected);
    let names = good(Format::OracleGeneralObjects, &file);
    assert_eq!((names[1].3, names[1].4), (42 * 4096, 4096));
    assert_eq!((names[2].3, names[2].4), (((1 << 48) - 2) * 4096, 4096));
    assert_eq!(detected("x", &file), Ok(Format::OracleGeneral));
    assert_eq!(detected("t.oracleGeneral.bin", &file[..30]), Ok(Format::OracleGeneral), "its name");
    let key = oracle(1, u64::MAX, 512, -1);
    assert!(bad(Format::OracleGeneral, &key).contains("name the format oracleGeneral-objects"));
    assert_eq!(good(Format::OracleGeneralObjects, &key).len(), 1);
    assert!(bad(Format::OracleGeneral, &[0; 24]).starts_with("byte 0: the record has no"));
    assert!(
        bad(Format::OracleGeneral, &file[..30])
            .starts_with("byte 24: the file is truncated: it ends 6 bytes")
    );
}

#[test]
fn recordings_come_in_pieces_and_may_be_cut() {
    let event = |device, operation, first, sectors| Event {
        time_ns: 5,
        took_ns: None,
        operation,
        device,
        first,
        sectors,
        failed: None,
    };
    let events = [
        event(9, Operation::Read, 8, 8),
        event(0, Operation::Write { fua: true }, 1, 2),
        event(9, Operation::Flush, 0, 0),
    ];
    let mut file = Vec::new();
    header(&mut file);
    blocks(&mut file, &events, 3);
    blocks(&mut file, &events[..1], 4);
    let (accesses, names, notes) = whole(Format::Recording, &file);
    let notes = notes.expect("a recording");
    assert_eq!((accesses.len(), notes.dropped, notes.is_cut), (4, 7, false));
    assert_eq!(names, ["9", "0"]);
    assert_eq!((accesses[1].device, accesses[1].first_byte, accesses[1].bytes), (1, 512, 1024));
    assert_eq!(accesses.iter().filter(|access| access.direction == Other).count(), 1);
    assert_eq!(detected("x", &file), Ok(Format::Recording));
    let (accesses, _, notes) = whole(Format::Recording, &file[..file.len() - 1]);
    assert_eq!((accesses.len(), notes.map(|notes| notes.is_cut)), (3, Ok(true)));
    let last = file.len() - 1;
    file[last] ^= 1;
    assert!(bad(Format::Recording, &file).starts_with("block 1 does not match its checksum"));
    assert!(bad(Format::Recording, b"ODTRACE\n").contains("header"));
    assert!(bad(Format::Recording, &[b'x'; 16]).contains("does not begin as a recording does"));
}

#[test]
fn what_is_no_trace_is_refused_with_the_formats() {
    assert_eq!(detected("x", b""), Err("the file is empty".to_owned()));
    let told = detected("x", b"hello world\n").expect_err("no trace");
    assert!(
        told.starts_with("line 1: the format is unknown; name it with --format (rec"),
        "{told}"
    );
    assert!(told.ends_with("): hello world"), "{told}");
    let told = detected("x", &[0xff; 100]).expect_err("no trace");
    assert!(
        told.starts_with("byte 0: the file is neither text nor in a known binary format"),
        "{told}"
    );
    // The name decides if the bytes are not conclusive: the reader then reports the error.
    assert_eq!(detected("a.vscsi", &[0xff; 100]), Ok(Format::Vscsi));
}

#[test]
fn a_line_has_a_longest_length() {
    let long = [b"R,0,".as_slice(), &[b'1'; 5000]].concat();
    for format in [Format::Csv, Format::Msr, Format::Blkparse] {
        let told = bad(format, &[&long[..], b"\n"].concat());
        assert_eq!(told, "line 1: the line is longer than 4096 bytes");
        let mut reader = Reader::new(format);
        let endless = (0..).find_map(|_| reader.feed(&[b' '; 1000], &mut Vec::new()).err());
        assert!(endless.is_some_and(|message| message.to_string().contains("longer than 4096")));
    }
}

#[test]
fn each_format_has_a_name_of_its_own() {
    for format in Format::ALL {
        assert_eq!(Format::by_name(&format.name().to_uppercase()), Some(format));
    }
    assert_eq!(Format::by_name("x"), None);
}

/// Returns the start of a file of this format.
fn seed(format: Format) -> Vec<u8> {
    match format {
        Format::Recording => {
            let mut file = Vec::new();
            header(&mut file);
            file
        }
        Format::Vscsi => vscsi_one(512, 0x28, 7, 9),
        Format::OracleGeneral | Format::OracleGeneralObjects => oracle(1, 2, 3, 4),
        Format::Msr => b"128166372003061629,usr,0,Read,7014609920,24576,41286\n".to_vec(),
        Format::Alibaba => b"419,W,8792731648,16384,1577808144360767\n".to_vec(),
        Format::Tencent => b"1538323200,12910952,128,0,1063\n".to_vec(),
        Format::Spc => b"0,303567,3584,w,0.000000\n".to_vec(),
        Format::Blkparse | Format::BlkparseSent => BLKPARSE.as_bytes().to_vec(),
        Format::Csv => b"R,0,4096\n".to_vec(),
        Format::Arc | Format::ArcSectors => b"110765 64 0 0\n".to_vec(),
        _ => b"7961.833 0 20228336 8 0\n".to_vec(),
    }
}

proptest! {
    #[test]
    fn no_bytes_make_any_reader_panic(bytes: Vec<u8>, piece in 1..40usize, seeded: bool) {
        for format in Format::ALL {
            let start = if seeded { seed(format) } else { Vec::new() };
            all(format, &[&start[..], &bytes].concat(), piece);
        }
    }

    #[test]
    fn nor_do_damaged_files(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        letters in "[0-9RWQD.,+ \\n-]{0,60}",
        piece in 1..70usize,
    ) {
        for format in Format::ALL {
            let mut bytes = [seed(format), seed(format), letters.as_bytes().to_vec()].concat();
            let length = bytes.len();
            places.iter().for_each(|(place, byte)| bytes[place.index(length)] = *byte);
            all(format, &bytes, piece);
        }
    }
}

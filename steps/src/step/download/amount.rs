//! Numbers of files and bytes as messages say them.

/// `1 file`, `12 files`.
pub(in crate::step) fn counted(files: u64) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

/// Bytes in the unit that people would use, with one digit behind the point: `3 MiB`, `3.4 MiB`.
pub(in crate::step) fn about(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = u128::from(bytes) * 10;
    let mut unit = "B";
    for larger in UNITS {
        if tenths < 10_240 {
            break;
        }
        (tenths, unit) = (tenths / 1024, larger);
    }
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} {unit}"),
        (whole, rest) => format!("{whole}.{rest} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_said_as_people_say_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (3 << 20, "3 MiB"),
            ((3 << 20) + 480_000, "3.4 MiB"),
            (u64::MAX, "16383.9 PiB"),
        ] {
            assert_eq!(about(bytes), text);
        }
        assert_eq!((counted(1), counted(12)), ("1 file".into(), "12 files".into()));
    }
}

//! The text of a mail as it lies in the outbox, for people to read.

/// The first plain text of a message; `None` if there is none.
pub(super) fn text(message: &str) -> Option<String> {
    let lines: Vec<&str> = message.lines().map(|line| line.trim_end_matches('\r')).collect();
    let start =
        lines.iter().position(|line| line.to_ascii_lowercase().starts_with("content-type: text/plain"))?;
    let part = &lines[start..];
    let head = part.iter().position(|line| line.is_empty())?;
    let quoted = part[..head].iter().any(|line| line.to_ascii_lowercase().ends_with("quoted-printable"));
    let body = part[head + 1..].iter().take_while(|line| !line.starts_with("--"));
    let mut bytes = Vec::new();
    for line in body {
        match line.strip_suffix('=').filter(|_| quoted) {
            Some(goes_on) => bytes.extend(unquoted(goes_on)),
            None if quoted => bytes.extend(unquoted(line).into_iter().chain(*b"\n")),
            None => bytes.extend(line.bytes().chain(*b"\n")),
        }
    }
    Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// `=C3=A9` are two bytes.
fn unquoted(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = line.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let two = (*first == b'=').then(|| more.get(..2)).flatten();
        let byte = two.and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &more[2..] } else { more };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_read_as_it_was_written() {
        let message = "Subject: x\r\nContent-Type: multipart/mixed\r\n\r\n--b\r\nContent-Type: text/plain; charset=utf-8\r\n\
                       Content-Transfer-Encoding: quoted-printable\r\n\r\nK=C3=A5re=\r\nvik\r\n1 =3D 1\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\nno\r\n";
        assert_eq!(text(message).unwrap(), "Kårevik\n1 = 1");
        let plain = "Content-Type: text/plain\nContent-Transfer-Encoding: 7bit\n\na=\nb\n";
        assert_eq!(text(plain).unwrap(), "a=\nb");
        assert_eq!(text("Subject: x\n\nno part\n"), None);
    }
}

//! Error messages of the driver's linker.

/// The symbols the linker could not find, each once, in the order of its complaints.
pub(super) fn unresolved(log: &str) -> Vec<String> {
    let mut symbols = Vec::new();
    for line in log.lines() {
        let lower = line.to_ascii_lowercase();
        // "error : Undefined reference to 'foo' in 'dispatcher'"; ptxas says "Unresolved extern function 'foo'".
        let complaint = ["undefined reference to", "unresolved extern"].iter().find_map(|words| {
            let at = lower.find(words)?;
            line.get(at + words.len()..)
        });
        let Some(symbol) = complaint.and_then(quoted) else { continue };
        if !symbols.iter().any(|known| known == symbol) {
            symbols.push(symbol.to_owned());
        }
    }
    symbols
}

/// The log on one line, warnings left out where there are errors.
pub(super) fn one_line(log: &str) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let grave = |line: &&&str| {
        let lower = line.to_ascii_lowercase();
        lower.contains("error") || lower.contains("fatal")
    };
    let errors: Vec<&str> = lines.iter().filter(grave).copied().collect();
    if errors.is_empty() { lines.join("; ") } else { errors.join("; ") }
}

/// The contents of the first pair of quotes; of an unclosed pair (a log cut short), the rest.
fn quoted(text: &str) -> Option<&str> {
    let open = text.find(['\'', '`', '"'])?;
    let inner = &text[open + 1..];
    let name = inner.split(['\'', '`', '"']).next()?.trim();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_read_from_the_linkers_and_the_assemblers_words() {
        let log = "error   : Undefined reference to 'decode_syndrome' in 'dispatcher'\n\
                   warning : something\n\
                   error   : Undefined reference to 'cudaGraphLaunch' in 'dispatcher'\n\
                   error   : Undefined reference to 'decode_syndrome' in 'handlers'\n\
                   ptxas fatal   : Unresolved extern function 'other'\n\
                   nvlink error   : Undefined reference to 'cut";
        assert_eq!(unresolved(log), ["decode_syndrome", "cudaGraphLaunch", "other", "cut"]);
        assert!(unresolved("error : Multiple definition of 'f' in 'b'").is_empty());
        assert!(unresolved("Undefined reference to ''").is_empty());
        assert!(unresolved("").is_empty());
    }

    #[test]
    fn the_log_is_one_line_of_the_errors() {
        let log = "info: linking\n  error : Multiple definition of 'f'  \n\nptxas fatal : aborted\n";
        assert_eq!(one_line(log), "error : Multiple definition of 'f'; ptxas fatal : aborted");
        assert_eq!(one_line("only this\n"), "only this");
    }
}

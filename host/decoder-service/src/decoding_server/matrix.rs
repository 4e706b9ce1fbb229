//! Sparse matrices as a configuration lists them: the columns of each row, and -1 after each row.

use super::error::ConfigError;
use super::yaml::Node;

/// Rows, each with its columns in ascending order.
pub(super) type Rows = Vec<Vec<u32>>;

/// Reads the rows of a matrix with `columns` columns.
///
/// # Errors
/// A value that is neither a column nor -1, a column listed twice in a row, a last row without its -1.
pub(super) fn rows(node: &Node<'_>, key: &str, columns: u32) -> Result<Rows, ConfigError> {
    let mut rows = Vec::new();
    let mut row: Vec<u32> = Vec::new();
    let list = node.list(key)?;
    for (i, item) in list.iter().enumerate() {
        let name = || format!("{key}[{i}]");
        let refuse = |reason: String| Err(ConfigError::new(item.line, name(), reason));
        let value = match item.integer(key) {
            Ok(value) => value,
            Err(error) => return refuse(error.reason),
        };
        match u32::try_from(value) {
            Ok(column) if column < columns => row.push(column),
            _ if value == -1 => {
                row.sort_unstable();
                if let Some(twice) = row.windows(2).find(|pair| pair[0] == pair[1]) {
                    return refuse(format!("row {} has column {} twice", rows.len(), twice[0]));
                }
                rows.push(std::mem::take(&mut row));
            }
            _ => return refuse(format!("{value} is no column of {columns} and not the -1 after a row")),
        }
    }
    if row.is_empty() {
        return Ok(rows);
    }
    let line = list.last().map_or(node.line, |item| item.line);
    Err(ConfigError::new(line, key, "the last row has no -1 after it"))
}

/// For each column, the rows that contain it.
pub(super) fn columns(rows: &[Vec<u32>], columns: usize) -> Rows {
    let mut out = vec![Vec::new(); columns];
    for (index, row) in (0..).zip(rows) {
        row.iter().for_each(|&column| out[column as usize].push(index));
    }
    out
}

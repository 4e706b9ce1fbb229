//! One function over many items, on every core.

use anyhow::{Result, bail};
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Calls `work` with each item, on as many threads as the machine has cores; gives the results in the items' order.
///
/// # Errors
/// The first error in the items' order. After an error no further item is begun.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let next = AtomicUsize::new(0);
    let one_thread = || {
        let mut done = Vec::new();
        while let Some((index, item)) = take(&next, items) {
            let result = work(item);
            if result.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            done.push((index, result));
        }
        done
    };
    let mut all = Vec::new();
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one_thread)).collect();
        for thread in running {
            match thread.join() {
                Ok(done) => all.extend(done),
                Err(_) => bail!("a thread panicked"),
            }
        }
        Ok(())
    })?;
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

/// The next item, and where it is.
fn take<'a, T>(next: &AtomicUsize, items: &'a [T]) -> Option<(usize, &'a T)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    items.get(index).map(|item| (index, item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..50).collect();
        assert_eq!(
            each(&items, |item| Ok(item * 2)).expect("no error"),
            (0..100).step_by(2).collect::<Vec<_>>()
        );
        assert_eq!(each(&[], |item: &usize| Ok(*item)).expect("no error"), Vec::<usize>::new());
    }

    #[test]
    fn an_error_ends_it() {
        let begun = AtomicUsize::new(0);
        let error = each(&[0; 10_000], |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            bail!("refused") as Result<()>
        });
        assert_eq!(error.expect_err("every item fails").to_string(), "refused");
        assert!(begun.into_inner() < 10_000);
    }
}

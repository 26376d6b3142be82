//! A disk in memory that keeps what was synced, and at the cut of the power any part of the rest:
//! each sector of each write that was not synced is there or is not, whatever came before it.

use std::io;
use std::sync::Arc;

use ingest_store::engines::embedded::Disk;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const SECTOR: usize = 512;

#[derive(Debug, Clone, Default)]
pub(crate) struct LossyDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// What survives for certain.
    durable: Vec<u8>,
    /// What a reader sees.
    current: Vec<u8>,
    unsynced: Vec<Change>,
    /// Changes and syncs so far, and the number of the one at which the power goes.
    steps: u64,
    cut_at: Option<u64>,
    off: bool,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl LossyDisk {
    /// The power goes at the `steps`th change or sync from now.
    pub(crate) fn cut_after(&self, steps: u64) {
        let mut state = self.state.lock();
        state.cut_at = Some(state.steps + steps);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.state.lock().off
    }

    /// A disk as it is found when the power is back.
    pub(crate) fn after_the_cut(&self, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let state = self.state.lock();
        assert!(state.off);
        let mut found = state.durable.clone();
        // Now and then everything or nothing is kept: the extremes are cases of their own.
        let kept = *[0.0, 0.1, 0.5, 0.9, 1.0].get(random.random_range(0..5)).unwrap();
        for change in &state.unsynced {
            match change {
                Change::Length(length) if random.random_bool(kept) => found.resize(*length, 0),
                Change::Length(_) => {}
                Change::Write(offset, data) => {
                    for (n, sector) in data.chunks(SECTOR).enumerate() {
                        let at = offset + n * SECTOR;
                        if random.random_bool(kept) && at + sector.len() <= found.len() {
                            found[at..at + sector.len()].copy_from_slice(sector);
                        }
                    }
                }
            }
        }
        let state = State { durable: found.clone(), current: found, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// How many changes the cut could have lost.
    pub(crate) fn at_risk(&self) -> usize {
        self.state.lock().unsynced.len()
    }
}

impl State {
    fn step(&mut self) -> io::Result<()> {
        self.steps += 1;
        if self.cut_at.is_some_and(|at| self.steps >= at) {
            self.off = true;
        }
        if self.off { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }
}

impl Disk for LossyDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state.lock().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state.lock();
        let from = usize::try_from(offset).unwrap();
        let bytes = state.current.get(from..from + out.len());
        out.copy_from_slice(bytes.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        let from = usize::try_from(offset).unwrap();
        // The last write is under way when the power goes: parts of it may arrive.
        state.unsynced.push(Change::Write(from, data.to_vec()));
        state.step()?;
        state.current[from..from + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let length = usize::try_from(len).unwrap();
        state.unsynced.push(Change::Length(length));
        state.step()?;
        state.current.resize(length, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.step()?;
        for change in std::mem::take(&mut state.unsynced) {
            match change {
                Change::Write(from, data) => state.durable[from..from + data.len()].copy_from_slice(&data),
                Change::Length(length) => state.durable.resize(length, 0),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_survives_and_what_was_not_may_not() {
        let disk = LossyDisk::default();
        disk.set_len(4096).unwrap();
        disk.write(0, &[1; 1024]).unwrap();
        disk.sync().unwrap();
        disk.write(1024, &[2; 2048]).unwrap();
        disk.cut_after(1);
        assert!(disk.sync().is_err() && disk.is_off());
        let mut seen = [false; 2];
        for seed in 0..50 {
            let mut bytes = vec![0; 4096];
            disk.after_the_cut(seed).read(0, &mut bytes).unwrap();
            assert_eq!(bytes[..1024], [1; 1024]);
            seen[usize::from(bytes[1024..3072] == [2; 2048])] = true;
        }
        assert_eq!(seen, [true; 2]);
    }
}

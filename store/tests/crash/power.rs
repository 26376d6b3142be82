use std::sync::Arc;

use ingest_store::engines::embedded::Embedded;
use ingest_store::{Limits, Mode, Store};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::lossy_disk::LossyDisk;
use crate::workload::{self, Progress, WRITERS};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_of_the_power_loses_nothing_that_was_acknowledged() {
    let cuts = crate::crashes(300);
    let mut random = StdRng::seed_from_u64(11);
    let mut disk = LossyDisk::default();
    let mut known = [(0, 0); WRITERS];
    let (mut at_risk, mut steps) = (0, 0);
    for cut in 0..cuts {
        let tree = Embedded::open_on(disk.clone()).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        let store = Store::new(Arc::new(tree.clone()), Limits::default());
        let session = store.session().await.unwrap();
        for (writer, (acknowledged, sent)) in known.iter_mut().enumerate() {
            if cut > 0 {
                let step = workload::verify(&session, writer, *acknowledged, *sent).await;
                (*acknowledged, *sent) = (step, step);
            }
        }
        session.create_with_parents("/lives/n-", "", Mode::PersistentSequential).await.unwrap();
        let mut begun = Vec::new();
        for writer in 0..WRITERS {
            begun.push(workload::begin(&session, writer).await.unwrap());
        }
        disk.cut_after(random.random_range(1..400));
        let progress = Arc::new(Mutex::new(known));
        let writers = (0..WRITERS).map(|writer| {
            let (session, progress, from) = (session.clone(), progress.clone(), begun[writer]);
            tokio::spawn(async move {
                let tell = |told| match told {
                    Progress::Sent(step) => progress.lock()[writer].1 = step,
                    Progress::Acknowledged(step) => progress.lock()[writer].0 = step,
                };
                workload::write(&session, writer, from, tell).await;
            })
        });
        for writer in futures::future::join_all(writers).await {
            writer.unwrap();
        }
        assert!(disk.is_off());
        drop(session);
        tree.close().await;
        steps += progress.lock().iter().zip(&known).map(|(now, before)| now.0 - before.0).sum::<u32>();
        known = *progress.lock();
        at_risk += disk.at_risk();
        disk = disk.after_the_cut(u64::from(cut));
    }
    println!("{cuts} cuts of the power, {steps} steps acknowledged, {at_risk} changes at risk");
    assert!(at_risk > cuts as usize, "the cuts came when nothing was at risk");
    assert!(steps > cuts, "hardly anything was written between the cuts");
}

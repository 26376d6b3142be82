//! Writers whose every commit changes several nodes that must agree.
//!
//! Writer `w` at step `n` has `/w/status` with data `n` and version `n`, one reference `/w/refs/n` and
//! no other, and a persistent node `/w/done/…` for every hundredth step: a multi that is applied in
//! part shows. A lock comes and goes with the steps, so that there are ephemeral nodes to bury.

use ingest_store::{Mode, Op, Result, Session};

pub(crate) const WRITERS: usize = 8;

/// What became of a writer's steps, told before and after each.
pub(crate) enum Progress {
    Sent(u32),
    Acknowledged(u32),
}

/// Makes the nodes of a writer if this is the first life, and returns the step it is at.
pub(crate) async fn begin(session: &Session, writer: usize) -> Result<u32> {
    let dir = format!("/w{writer}");
    if let Some(stat) = session.exists(format!("{dir}/status")).await? {
        return Ok(u32::try_from(stat.version).unwrap());
    }
    session
        .multi(vec![
            Op::create(dir.clone(), ""),
            Op::create(format!("{dir}/refs"), ""),
            Op::create(format!("{dir}/done"), ""),
            Op::create(format!("{dir}/refs/0"), ""),
            Op::create(format!("{dir}/status"), "0"),
        ])
        .await?;
    Ok(0)
}

/// Takes steps until the tree does not answer any more.
pub(crate) async fn write(session: &Session, writer: usize, from: u32, mut tell: impl FnMut(Progress)) {
    let dir = format!("/w{writer}");
    let mut locked = false;
    for step in from + 1.. {
        tell(Progress::Sent(step));
        let before = step - 1;
        let mut ops = vec![
            Op::set(format!("{dir}/status"), padded(step), i32::try_from(before).unwrap()),
            Op::delete(format!("{dir}/refs/{before}"), None),
            Op::create(format!("{dir}/refs/{step}"), ""),
        ];
        if step % 2 == 1 {
            let lock = format!("{dir}/lock");
            ops.push(if locked { Op::delete(lock, None) } else { Op::ephemeral(lock, "me") });
            locked = !locked;
        }
        if step % 100 == 0 {
            let path = format!("{dir}/done/s-");
            ops.push(Op::Create { path, data: vec![b'd'; 5000].into(), mode: Mode::PersistentSequential });
        }
        match session.multi(ops).await {
            Ok(_) => tell(Progress::Acknowledged(step)),
            // A refusal would mean that the tree is not what it was; anything else is the end.
            Err(error) if error.failed_op().is_some() => panic!("writer {writer} at {step}: {error}"),
            Err(_) => return,
        }
    }
}

/// Longer every now and then, so that values move between pages.
fn padded(step: u32) -> Vec<u8> {
    let mut data = step.to_string().into_bytes();
    data.resize(data.len() + (step as usize % 7) * 150, b' ');
    data
}

/// Checks a writer's nodes against each other and against what is known; returns its step.
pub(crate) async fn verify(session: &Session, writer: usize, acknowledged: u32, sent: u32) -> u32 {
    let dir = format!("/w{writer}");
    let (data, stat) = session.get(format!("{dir}/status")).await.unwrap();
    let step: u32 = std::str::from_utf8(&data).unwrap().trim_end().parse().unwrap();
    assert!(
        (acknowledged..=sent).contains(&step),
        "writer {writer} is at {step}; acknowledged were {acknowledged}, sent {sent}"
    );
    assert_eq!(u32::try_from(stat.version).unwrap(), step, "each step sets the status once");
    let (refs, dir_stat) = session.children(format!("{dir}/refs")).await.unwrap();
    assert_eq!(refs, [step.to_string()], "exactly one reference");
    assert_eq!(u32::try_from(dir_stat.cversion).unwrap(), 2 * step + 1, "one created and one deleted a step");
    let done = session.children(format!("{dir}/done")).await.unwrap().0;
    assert_eq!(done.len(), step as usize / 100);
    assert!(
        session.exists(format!("{dir}/lock")).await.unwrap().is_none(),
        "no ephemeral node outlives its session"
    );
    step
}

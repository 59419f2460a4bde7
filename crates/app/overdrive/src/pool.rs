//! `overdrive pool`: several devices as one.

use clap::Subcommand;
use stack::Failure;
use std::path::PathBuf;
use std::process::ExitCode;

/// Several devices as one, without stripes.
///
/// Each write goes, whole, to the member with the shortest queue; members of one speed wear evenly.
/// There is no redundancy: data on a lost member is lost. It is served as 'pool:PATH,PATH...', with
/// the members in the order of their creation; write 'missing' for a missing one.
///
/// Example:
///   truncate -s 10G a.img b.img && overdrive pool create a.img b.img
///   overdrive serve pool:a.img,b.img --memory 1G
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Make a pool of files or devices that are blank: zeros at their start and end, and no
    /// signature.
    Create {
        /// The members, 2 to 16.
        #[arg(required = true, num_args = 2..)]
        members: Vec<PathBuf>,
        /// Also accept members that hold data, which is lost. Only file systems that several hosts
        /// may have mounted are still refused.
        #[arg(long)]
        overwrite: bool,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let What::Create { members, overwrite } = &arguments.what;
    let size = stack::create_pool(members, *overwrite)?;
    let names: Vec<_> = members.iter().map(|member| member.display().to_string()).collect();
    daemon::say!("created a pool of {size}; serve it as pool:{}", names.join(","));
    Ok(ExitCode::SUCCESS)
}

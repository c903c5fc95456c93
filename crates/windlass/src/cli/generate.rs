//! `windlass completions` and `windlass man`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use super::error::Failure;
use super::output::Output;

#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  windlass completions bash > /etc/bash_completion.d/windlass
  windlass completions fish > ~/.config/fish/completions/windlass.fish")]
pub(crate) struct CompletionsArgs {
    shell: Shell,
}

pub(crate) fn completions(args: CompletionsArgs, output: &Output) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "windlass", &mut text);
    output.bytes(&text);
    Ok(())
}

pub(crate) fn man(output: &Output) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut text)
        .map_err(|error| Failure::error(format!("cannot write the manual: {error}")))?;
    output.bytes(&text);
    Ok(())
}

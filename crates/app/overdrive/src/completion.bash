# bash splits words at colons, as in model:NAME. The word before the cursor is completed as a whole,
# and the part before its last colon is taken from the candidates, because bash keeps that part.
_overdrive_with_colons() {
    local word=${COMP_LINE:0:COMP_POINT}
    word=${word##*[[:space:]]}
    local first=$COMP_CWORD text=${COMP_WORDS[COMP_CWORD]}
    while [[ $word == *:* && $text != "$word" && $first -gt 1 ]]; do
        first=$((first - 1))
        text=${COMP_WORDS[first]}$text
    done
    if [[ $word != *:* || $text != "$word" || $first == "$COMP_CWORD" ]]; then
        _clap_complete_overdrive "$@"
        return
    fi
    local words=("${COMP_WORDS[@]:0:first}" "$word")
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$first
    _clap_complete_overdrive "$1" "$word" "$3"
    local before=${word%"${word##*:}"}
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
}
complete -o nospace -o bashdefault -F _overdrive_with_colons overdrive

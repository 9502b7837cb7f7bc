package corpus

import "strings"

// Words to make sentences of. There are enough that two sentences are hardly
// ever alike.
var (
	nouns = strings.Fields(`account adapter address agent archive argument array backup balance batch binary
		body border branch bridge bucket budget buffer builder button cache campaign cell channel chapter
		chart client clock cluster code column command comment compiler component config connection
		container context contract cookie copy counter country customer database deadline decision default
		dependency deployment design device directory document domain draft driver edge editor email engine
		entry error event example exception export factory failure feature field figure file filter flag
		folder font form format frame function garden gateway graph group guard guide handler harbour
		header history house image index input instance interface invoice issue item journey kernel key
		label language layer layout leader ledger letter library licence limit line link list loader lock
		logger loop manager map market memory menu message method metric migration mirror model module
		month mountain network node notice number object offer office operator option order outline output
		owner package page parameter parent parser partner patch path pattern payment permission person
		pipeline plan plugin pointer policy pool port prefix price problem process product profile program
		project promise prompt proposal protocol provider proxy query question queue record reference
		region release reminder report repository request resource response result review river road
		role route rule runner sample schedule schema scope screen script section segment sensor sentence
		server service session setting shape signal site size snapshot socket source stack stage station
		step storage store stream street string structure student summary support switch symbol system
		table target task team template test thread ticket timer token tool topic trace transaction tree
		trigger type update upload user value variable vector version view village volume warning water
		weather window winter worker writer zone`)
	verbs = strings.Fields(`accepts adds allows applies asks avoids becomes begins blocks breaks builds calls
		cancels carries changes checks clears closes collects compares completes confirms contains controls
		converts copies covers creates decides defines delays deletes delivers depends describes detects
		drops edits enters exceeds expects explains exports fails fetches fills finds finishes follows
		forgets formats gathers gives handles hides holds ignores imports includes joins keeps leaves limits
		lists loads locks logs loses makes marks matches measures meets merges misses mounts moves needs
		notes offers omits opens orders owns parses passes pauses picks places plans prints produces
		protects proves pulls pushes queries raises reaches reads rebuilds receives records refuses rejects
		releases removes renames renders repairs replaces reports requires resets resolves returns reveals
		rewrites runs saves scans selects sends serves shares shows signs skips sorts splits starts stops
		stores supports takes tests tracks trusts turns updates uses validates waits walks wants warns
		watches wraps writes`)
	adjectives = strings.Fields(`absent active actual alternative annual average basic better bitter blank
		blue brief bright broken calm careful central cheap clean clear closed common complete complex
		constant correct current dark deep different direct double early easy empty equal exact extra
		fair false familiar fast final first flat foreign free fresh full general global good great green
		half happy hard heavy hidden high honest huge idle important initial inner internal invalid large
		last late lazy legal light likely local lonely long loose lost low main major manual minor missing
		modern narrow nested new next noisy normal obvious odd old open optional original other outer
		partial plain possible private proper public quick quiet rare raw ready real recent remote rough
		round safe second secure serious shared sharp short silent similar simple single slow small smooth
		soft spare special stable stale static steady strange strict strong sudden sure tall temporary
		thin third tight tiny total true unique unknown unused upper useful usual valid visible warm weak
		whole wide wrong yellow young`)
	thinking = []string{
		"Let me", "I need to", "Maybe I should", "First I will", "Now I can", "It may help to", "I could also",
		"Next I have to", "It would be wise to", "The user wants me to", "I still have to", "To be sure I will",
	}
	doing = strings.Fields(`check read inspect open compare rename test move describe count rewrite review
		search list print explain restore trace sketch measure simplify replace verify extend`)
	linking = []string{
		"because", "although", "while", "when", "as long as", "before", "after", "unless", "so that", "and", "but",
		"even if",
	}
)

func (p *page) noun() string { return p.pick(nouns...) }

func (p *page) adjective() string { return p.pick(adjectives...) }

// clause returns some words with a subject and a verb.
func (p *page) clause() string {
	var b strings.Builder
	b.WriteString(p.pick("the", "a", "this", "each", "our", "no", "that", "one", "some", "its"))
	b.WriteByte(' ')
	if p.r.IntN(2) == 0 {
		b.WriteString(p.adjective() + " ")
	}
	b.WriteString(p.noun() + " " + p.pick(verbs...) + " " + p.pick("the", "a", "its", "every", "another", "their"))
	if p.r.IntN(3) == 0 {
		b.WriteString(" " + p.adjective())
	}
	b.WriteString(" " + p.noun())
	if p.r.IntN(3) == 0 {
		b.WriteString(" " + p.pick("in", "on", "under", "behind", "from", "with", "without", "near") + " the " + p.noun())
	}
	return b.String()
}

// sentence returns a sentence of one or two clauses.
func (p *page) sentence() string {
	var s string
	if p.r.IntN(3) == 0 {
		s = p.pick(thinking...) + " " + p.pick(doing...) + " the " + p.adjective() + " " + p.noun()
	} else {
		s = p.clause()
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	if p.r.IntN(2) == 0 {
		s += p.pick(" ", ", ") + p.pick(linking...) + " " + p.clause()
	}
	return s + p.pick(".", ".", ".", ".", "?", "!")
}

// sentences returns a paragraph of at least n bytes.
func (p *page) sentences(n int) string {
	var b strings.Builder
	for b.Len() < n {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(p.sentence())
	}
	return b.String()
}

// thoughts writes paragraphs of prose, at least n bytes.
func (p *page) thoughts(n int) {
	for end := len(p.text) + n; len(p.text) < end; {
		p.add(p.sentences(min(end-len(p.text), p.between(100, 600))) + "\n\n")
	}
}

// identifier returns a name as code has them.
func (p *page) identifier() string {
	a, b := p.noun(), p.noun()
	switch p.r.IntN(3) {
	case 0:
		return a + strings.ToUpper(b[:1]) + b[1:]
	case 1:
		return a + "_" + b
	}
	return p.adjective() + strings.ToUpper(a[:1]) + a[1:]
}

// path returns a file's path.
func (p *page) path() string {
	return p.pick("src", "lib", "pkg", "app", "internal", "docs") + "/" + p.noun() + "/" + p.noun() + "_" + p.noun() +
		p.pick(".go", ".py", ".ts", ".rs", ".md", ".json")
}

// noise returns n characters of an alphabet.
func (p *page) noise(n int, alphabet string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[p.r.IntN(len(alphabet))]
	}
	return string(b)
}

const (
	base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	hexAlphabet    = "0123456789abcdef"
	digits         = "0123456789"
)

// han, cyrillic and arabic return a sentence in the script; the words are common ones,
// in any order.
func (p *page) han() string {
	var b strings.Builder
	for range p.between(5, 9) {
		b.WriteString(p.pick("我", "需要", "检查", "这个", "文件", "然后", "再次", "确认", "结果", "是否", "正确", "代码", "函数",
			"问题", "可能", "首先", "测试", "用户", "希望", "修改", "已经", "读取", "配置", "错误", "返回", "数据", "处理", "分析"))
	}
	return b.String() + p.pick("。", "！", "？")
}

func (p *page) cyrillic() string {
	words := make([]string, p.between(5, 9))
	for i := range words {
		words[i] = p.pick("нужно", "проверить", "файл", "ещё", "раз", "потом", "функция", "ошибка", "возможно", "сначала",
			"результат", "теперь", "прочитать", "строка", "значение", "пользователь", "хочет", "изменить")
	}
	return strings.Join(words, " ") + ". "
}

func (p *page) arabic() string {
	words := make([]string, p.between(5, 9))
	for i := range words {
		words[i] = p.pick("يجب", "أن", "أتحقق", "من", "الملف", "مرة", "أخرى", "ثم", "النتيجة", "الخطأ", "ربما", "أولا",
			"الدالة", "القيمة", "المستخدم", "يريد", "تغيير", "السطر")
	}
	return strings.Join(words, " ") + ". "
}

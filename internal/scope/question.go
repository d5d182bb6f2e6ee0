package scope

import "github.com/lateen-mesh/lateen/internal/model"

// What a unit of configuration comes to depends on a class only by what the class's scope answers. So classes whose scopes give
// the same answers come to the same, and a scope can be asked for them without doing the work again.

// question is one look at a class.
type question struct {
	kind      questionKind
	host      model.Host
	service   *model.Service
	selector  model.Labels
	namespace string
}

type questionKind uint8

const (
	whichService questionKind = iota
	whichRoutes
	whichRule
	whetherSelected
	whetherOwn
	// somethingElse has no answer that two classes could have in common.
	somethingElse
)

type answer struct {
	service *model.Service
	routes  *model.VirtualService
	rule    *model.DestinationRule
	yes     bool
}

// Answers are the questions that a Scope was asked, and what it answered.
type Answers struct {
	list []answered
	seen map[question]bool
}

type answered struct {
	question
	answer
}

// NewAnswers takes down answers, of scopes whose Answers it is.
func NewAnswers() *Answers { return &Answers{seen: map[question]bool{}} }

func (s *Scope) answered(q question, a answer) {
	if s.Answers == nil || s.Answers.seen[q] {
		return
	}
	s.Answers.seen[q] = true
	s.Answers.list = append(s.Answers.list, answered{q, a})
}

// Given tells whether another scope would answer the same.
func (a *Answers) Given(by *Scope) bool {
	for i := range a.list {
		if !by.gives(&a.list[i]) {
			return false
		}
	}
	return true
}

func (s *Scope) gives(a *answered) bool {
	switch a.kind {
	case whichService:
		return s.Service(a.host) == a.answer.service
	case whichRoutes:
		return s.VirtualService(a.host) == a.routes
	case whichRule:
		return s.DestinationRule(a.question.service) == a.rule
	case whetherSelected:
		return s.Selected(a.selector) == a.yes
	case whetherOwn:
		return s.IsOwn(a.namespace) == a.yes
	case somethingElse:
	}
	return false
}

// Selected tells whether a selector of the world matches the proxies of the class.
func (s *Scope) Selected(selector model.Labels) bool {
	yes := s.Class.Selected(selector)
	if !selector.IsEmpty() {
		s.answered(question{kind: whetherSelected, selector: selector}, answer{yes: yes})
	}
	return yes
}

// IsOwn tells whether a namespace is that of the class.
func (s *Scope) IsOwn(namespace string) bool {
	yes := s.Class.Namespace == namespace
	s.answered(question{kind: whetherOwn, namespace: namespace}, answer{yes: yes})
	return yes
}

// unlike notes that what is answered now is for this class alone.
func (s *Scope) unlike() { s.answered(question{kind: somethingElse}, answer{}) }

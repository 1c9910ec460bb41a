package grants

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Folder reads the Roles, ClusterRoles and bindings of all manifests below a directory, or of one file. It ignores
// objects of other API groups. The error names the file and object of every manifest that the API server would
// reject.
func Folder(name string) (rbac.Listers, error) {
	f := folder{store: newStore(), decoder: strict(), from: map[string]string{}}
	info, err := os.Stat(name)
	if err != nil {
		return rbac.Listers{}, err
	}
	if !info.IsDir() {
		f.read(os.DirFS(filepath.Dir(name)), filepath.Base(name))
	} else if err := f.walk(os.DirFS(name)); err != nil {
		return rbac.Listers{}, err
	}
	if err := errors.Join(f.problems...); err != nil {
		return rbac.Listers{}, err
	}
	return f.store.listers(), f.store.aggregate()
}

// folder is the state of reading a directory.
type folder struct {
	store    store
	decoder  runtime.Decoder
	from     map[string]string // the file that defines each object
	problems []error
}

func (f *folder) walk(fsys fs.FS) error {
	return fs.WalkDir(fsys, ".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && fbc.IsCatalogFile(file) {
			f.read(fsys, file)
		}
		return err
	})
}

// strict returns a decoder that rejects unknown fields, as kubectl apply does.
func strict() runtime.Decoder {
	scheme := runtime.NewScheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		panic(err) // fails only if the types of k8s.io/api are invalid
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

func (f *folder) read(fsys fs.FS, file string) {
	if err := catalog.CheckRegular(fsys, file); err != nil {
		f.problem(file, "", err)
		return
	}
	data, err := fs.ReadFile(fsys, file)
	if err != nil {
		f.problem(file, "", err)
		return
	}
	reader := catalog.Documents(data)
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = f.document(file, doc)
		}
		if err != nil {
			f.problem(file, "", err)
			return
		}
	}
}

func (f *folder) problem(file, object string, err error) {
	if object != "" {
		file += ": " + object
	}
	f.problems = append(f.problems, fmt.Errorf("%s: %w", file, err))
}

func (f *folder) document(file string, doc []byte) error {
	if err := catalog.CheckAliases(doc, catalog.MaxFileBytes); err != nil {
		return err
	}
	data, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return err
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &obj.Object); err != nil || (obj.Object != nil && obj.GetKind() == "") {
		return errors.New("the document is not an object with a kind")
	}
	if obj.Object == nil {
		return nil // the document contains only comments
	}
	return f.object(file, obj)
}

// object adds one object, or each element of a list.
func (f *folder) object(file string, obj *unstructured.Unstructured) error {
	if obj.IsList() {
		return obj.EachListItem(func(item runtime.Object) error {
			one, ok := item.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("%s: an element is not an object", obj.GetKind())
			}
			return f.object(file, one)
		})
	}
	if obj.GroupVersionKind().Group != rbacv1.GroupName {
		return nil
	}
	typed, err := f.decode(obj)
	if err != nil {
		f.problem(file, describe(obj), err)
		return nil
	}
	id := obj.GetKind() + " " + client.ObjectKeyFromObject(typed).String()
	if other, ok := f.from[id]; ok {
		f.problem(file, describe(obj), fmt.Errorf("is also defined in %s", other))
		return nil
	}
	f.from[id] = file
	index, err := f.store.indexerFor(typed)
	if err != nil {
		return err
	}
	return index.Add(typed)
}

// decode decodes an object as the API server does, with its defaults.
func (f *folder) decode(obj *unstructured.Unstructured) (client.Object, error) {
	data, err := obj.MarshalJSON()
	if err != nil {
		return nil, err
	}
	decoded, err := runtime.Decode(f.decoder, data)
	if runtime.IsNotRegisteredError(err) {
		return nil, fmt.Errorf("%s is not supported: must be %s", obj.GroupVersionKind(), rbacv1.SchemeGroupVersion)
	}
	if err != nil {
		return nil, err
	}
	typed, ok := decoded.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an object", decoded)
	}
	return typed, complete(typed)
}

func describe(obj client.Object) string {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if obj.GetNamespace() == "" {
		return kind + " " + obj.GetName()
	}
	return kind + " " + obj.GetNamespace() + "/" + obj.GetName()
}
